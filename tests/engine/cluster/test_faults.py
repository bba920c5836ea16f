"""What dies, errs or changes during a merge by several processes costs some work again, and never a byte."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import smelt
from checkpoints import random_state, snapshot, write_model
from smelt.engine.cluster import driver
from smelt.engine.cluster.piece_sink import PieceSink
from smelt.engine.run.cpu import backend
from smelt.engine.sink.output import Journal
from smelt.errors import InputChanged, NumericalError, OutputError, RecipeError
from smelt.files.hashing.blake3 import TreeHash, compiled_blake3
from smelt.jobs.executor import InlineExecutor, WorkerAnswer
from smelt.jobs.job import Job
from smelt.jobs.local import LocalExecutor
from smelt.jobs.worker import perform

SHAPES: dict[str, tuple[int, ...]] = {
    f"layers.{n}.{part}.weight": (60, 70) for n in range(4) for part in ("up", "down")
}
SHAPES |= {f"layers.{n}.norm.weight": (61,) for n in range(4)} | {"embed.weight": (97, 61)}


class Several(InlineExecutor):
    """Three jobs at once in this process, the last first; after so many answers something happens."""

    workers = 3

    def __init__(self, answers: int = -1, then: Any = None):
        super().__init__()
        self.left, self.then, self.calls = answers, then, 0

    def wait(self) -> WorkerAnswer:
        if self.left == 0:
            self.left = -1
            self.then()
        self.left -= 1
        self.calls += 1
        ticket, job = self._waiting.pop()
        return WorkerAnswer(ticket, perform(job.call, job.arguments))


class Mortal(LocalExecutor):
    """Worker processes, of which some are killed as soon as they have a job."""

    def __init__(self, *killed: int):
        super().__init__(2)
        self.killed, self.given, self.deaths = killed, 0, 0

    def submit(self, ticket: int, job: Job) -> None:
        super().submit(ticket, job)
        self.given += 1
        if self.given in self.killed:
            os.kill(self._busy[ticket]._process.pid, signal.SIGKILL)

    def wait(self, seconds: float | None = None) -> WorkerAnswer | None:
        answer = super().wait(seconds)
        self.deaths += answer is not None and answer.answer is None
        return answer


@pytest.fixture(autouse=True)
def _many_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "unit_size", lambda bytes_in: 1)
    monkeypatch.setattr(driver, "_PAUSES", (0.0, 0.01, 0.01, 0.01))


@pytest.fixture
def words(tmp_path: Path) -> dict[str, Any]:
    paths = {
        name: write_model(tmp_path / name, {key: one.bfloat16() for key, one in random_state(seed, SHAPES).items()})
        for seed, name in enumerate(("base", "cars", "birds"))
    }
    models = [str(paths["cars"]), str(paths["birds"])]
    return {"models": models, "base": str(paths["base"]), "method": "ties", "shard_size": "20KB"}


def one_process(words: dict[str, Any], tmp_path: Path) -> dict[str, bytes]:
    smelt.merge(**words, out=tmp_path / "alone" / "out")
    return snapshot(tmp_path / "alone" / "out")


def stop() -> None:
    raise KeyboardInterrupt


def test_workers_that_are_killed_cost_their_units_alone(words: dict[str, Any], tmp_path: Path) -> None:
    """The fold has 13 units and two passes, or one with a sample: the 3rd job is a fold's, the 30th a merge's."""
    team = Mortal(3, 30)
    smelt.merge(**words, out=tmp_path / "many" / "out", executor=team)
    assert team.deaths == 2
    assert snapshot(tmp_path / "many" / "out") == one_process(words, tmp_path)


def test_a_unit_that_kills_every_worker_ends_the_run_and_what_is_finished_stays(
    words: dict[str, Any], tmp_path: Path
) -> None:
    words["method"] = "average"
    out = tmp_path / "many" / "out"
    team = Mortal(*range(6, 100))
    with pytest.raises(OutputError, match=r"its worker died 4 times; .*kept. Continue with resume=True"):
        smelt.merge(**words, out=out, executor=team)
    assert smelt.merge(**words, out=out, executor=Several(), resume=True).resumed >= 4
    assert snapshot(out) == one_process(words, tmp_path)


@pytest.mark.parametrize("answers", [0, 5, 14, 20, 33, 45, 50])
def test_an_interrupted_run_goes_on_with_what_is_in_the_journal(
    words: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: int
) -> None:
    """With spans of 512 elements a tensor of 4,200 is nine units: it is finished when all nine are answered."""
    for name, elements in (("_SPAN", 512), ("_AT_ONCE", 256)):
        monkeypatch.setattr(backend, name, elements)
    words["method"] = {"ties": {"trim": "model", "density": 0.3}} if answers < 20 else "average"
    out = tmp_path / "many" / "out"
    with pytest.raises(OutputError, match="interrupted"):
        smelt.merge(**words, out=out, executor=Several(answers, stop))
    partial = tmp_path / "many" / ".out.smelt-partial"
    assert sorted(path.name for path in partial.iterdir()) == ["journal.jsonl", "output"]
    done = [json.loads(line).get("done") for line in (partial / "journal.jsonl").read_text().splitlines()[1:]]
    team = Several()
    assert smelt.merge(**words, out=out, executor=team, resume=True).resumed == len(done)
    assert answers < 33 or 0 < len(done) < 13
    assert snapshot(out) == one_process(words, tmp_path)


def test_one_process_goes_on_where_workers_stopped_and_the_other_way_round(
    words: dict[str, Any], tmp_path: Path
) -> None:
    words["method"] = "average"
    for number, team in enumerate((None, Several())):
        out = tmp_path / str(number) / "out"
        with pytest.raises(OutputError, match="interrupted"):
            smelt.merge(**words, out=out, executor=Several(9, stop))
        assert smelt.merge(**words, out=out, resume=True, **({"executor": team} if team else {})).resumed == 9
        assert snapshot(out) == snapshot(tmp_path / "0" / "out")


def test_a_driver_that_is_killed_is_followed_by_another(words: dict[str, Any], tmp_path: Path) -> None:
    """It is killed when four of 13 tensors are in the journal; its workers end with it."""
    words["method"] = "average"
    out = tmp_path / "many" / "out"
    program = f"""
import os, signal, smelt
from smelt.engine.cluster import driver
from smelt.engine.sink.output import Journal
driver.unit_size = lambda bytes_in: 1
note, noted = Journal.done, []
def done(self, *keys):
    note(self, *keys)
    noted.extend(keys)
    if len(noted) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
Journal.done = done
smelt.merge(**{words!r}, out={str(out)!r}, executor="local", workers=2)
"""
    ran = subprocess.run([sys.executable, "-c", program], timeout=120)
    assert ran.returncode == -signal.SIGKILL
    assert smelt.merge(**words, out=out, executor=Several(), resume=True).resumed == 4
    assert snapshot(out) == one_process(words, tmp_path)


def failing(monkeypatch: pytest.MonkeyPatch, error: OSError, times: int) -> list[int]:
    """Let the writes of units fail so many times."""
    write, failed = PieceSink.place_of, [0]

    def place_of(self: PieceSink, item: Any, start: int) -> Any:
        if failed[0] < times:
            failed[0] += 1
            raise error
        return write(self, item, start)

    monkeypatch.setattr(PieceSink, "place_of", place_of)
    return failed


def test_a_unit_that_could_not_be_written_for_a_moment_is_tried_again(
    words: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = failing(monkeypatch, OSError(errno.EIO, "Input/output error"), 3)
    smelt.merge(**words, out=tmp_path / "many" / "out", executor=Several())
    assert failed == [3]
    assert snapshot(tmp_path / "many" / "out") == one_process(words, tmp_path)


def test_one_that_cannot_be_written_at_all_is_tried_four_times(
    words: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words |= {"include": "embed.*", "method": "average"}
    failed = failing(monkeypatch, OSError(errno.EIO, "Input/output error", "/far/away"), 100)
    with pytest.raises(OutputError, match=r"/far/away: .*in a worker: .*, process \d+.*; what is finished is kept in"):
        smelt.merge(**words, out=tmp_path / "many" / "out", executor=InlineExecutor())
    assert failed == [4]


def test_a_full_disk_is_told_at_once(words: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = failing(monkeypatch, OSError(errno.ENOSPC, "No space left on device"), 100)
    with pytest.raises(OutputError, match="the disk is full; what is finished is kept in"):
        smelt.merge(**words, out=tmp_path / "many" / "out", executor=InlineExecutor())
    assert failed == [1]


class Meddling(Several):
    """Something happens before the first job."""

    def __init__(self, meddle: Any):
        super().__init__()
        self.start = meddle


def test_an_input_that_changed_before_a_worker_opened_it_is_refused(words: dict[str, Any], tmp_path: Path) -> None:
    def change() -> None:
        path = tmp_path / "cars" / "model.safetensors"
        path.write_bytes(path.read_bytes()[:-2] + b"\x00\x00")

    with pytest.raises(InputChanged, match=r"cars.model.safetensors \(it was written to\)"):
        smelt.merge(**words, out=tmp_path / "many" / "out", executor=Meddling(change))
    assert list((tmp_path / "many").iterdir()) == []


def test_a_worker_that_sees_another_file_than_the_driver_is_refused_and_nothing_is_thrown_away(
    words: dict[str, Any], tmp_path: Path
) -> None:
    """As where two machines have other things mounted at one path: here the driver says that a file was larger."""
    out = tmp_path / "many" / "out"

    def pretend() -> None:
        path = tmp_path / "many" / ".out.smelt-partial" / "merge.json"
        told = json.loads(path.read_text())
        told["files"][str(tmp_path / "cars" / "model.safetensors")][0] += 1
        path.write_text(json.dumps(told))

    with pytest.raises(OutputError, match=r"not the file that the driver has opened: it was written to \(in a worker"):
        smelt.merge(**words, out=out, executor=Meddling(pretend))
    smelt.merge(**words, out=out, executor=Several(), resume=True)
    assert snapshot(out) == one_process(words, tmp_path)


def test_a_number_that_is_not_finite_is_told_as_one_process_tells_it(words: dict[str, Any], tmp_path: Path) -> None:
    tensors = {key: one.bfloat16() for key, one in random_state(1, SHAPES).items()}
    tensors["layers.2.up.weight"][7, 5] = torch.nan
    write_model(tmp_path / "cars", tensors)
    said = []
    for number, more in enumerate(({}, {"executor": Several()})):
        with pytest.raises(NumericalError) as told:
            smelt.merge(**words, **more, out=tmp_path / str(number) / "out")
        said.append(str(told.value))
        assert list((tmp_path / str(number)).iterdir()) == []
    assert said[0] == said[1]
    assert "cars" in said[0]


def test_a_worker_of_a_run_that_is_no_more_writes_nothing_into_the_next(tmp_path: Path) -> None:
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "model.safetensors").write_bytes(bytes(8))
    journal = Journal(tmp_path, "of this run")
    journal.start()
    PieceSink(tmp_path, "of this run", durable=True).begin({"model.safetensors": 8}, {})
    with pytest.raises(OutputError, match="another run has begun there"):
        PieceSink(tmp_path, "of the run before", durable=True).begin({"model.safetensors": 8}, {})
    journal.close()


@pytest.mark.parametrize("boot", ["that of the driver", "another"])
def test_a_worker_on_another_machine_reports_when_its_bytes_are_on_disk(
    words: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, boot: str
) -> None:
    """13 units, each in one file."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    words["method"] = "average"

    def move() -> None:
        path = tmp_path / "many" / ".out.smelt-partial" / "merge.json"
        told = json.loads(path.read_text())
        path.write_text(json.dumps({**told, "boot": told["boot"] if boot == "that of the driver" else boot}))

    before = len(synced)
    smelt.merge(**words, out=tmp_path / "many" / "out", executor=Meddling(move))
    in_shards = len(synced) - before
    assert in_shards >= 13 if boot == "another" else in_shards < 13


@pytest.mark.skipif(compiled_blake3() is None, reason="the hash was not compiled")
def test_what_workers_read_and_wrote_is_not_read_again_to_be_hashed(
    words: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver reads the headers of three inputs, and nothing of the outputs, whose headers it writes."""
    read: list[int] = []
    rest = TreeHash._read
    monkeypatch.setattr(
        TreeHash, "_read", lambda self, file, part: read.append(part[1] - part[0]) or rest(self, file, part)
    )
    smelt.merge(**words, out=tmp_path / "many" / "out", executor=Several())
    header = (tmp_path / "cars" / "model.safetensors").stat().st_size - sum(
        2 * torch.Size(shape).numel() for shape in SHAPES.values()
    )
    assert read.count(header) == 3
    small = {path.stat().st_size for path in (tmp_path / "many" / "out").iterdir() if path.suffix != ".safetensors"}
    assert set(read) - {header} <= small


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"executor": "rey"}, r"no executor named 'rey' \(did you mean 'ray'\?\)"),
        ({"executor": "local", "workers": 0}, "workers: at least 1, got 0"),
        ({"workers": 2}, "workers are those of an executor; give executor='local' too"),
        ({"executor": "local", "lora": 2}, "lora: an adapter is made in one process"),
        ({"executor": "local", "device": "auto"}, "device: workers of an executor merge on CPUs, got 'auto'"),
        ({"executor": "local", "out": None}, "executor: workers write into files; give `out`"),
    ],
)
def test_what_workers_cannot_do_is_refused_before_anything_is_opened(
    more: dict[str, Any], said: str, tmp_path: Path
) -> None:
    words = {"models": ["nowhere", "elsewhere"], "base": "home", "method": "average", "out": tmp_path / "out", **more}
    with pytest.raises(RecipeError, match=said):
        smelt.merge(**words)
