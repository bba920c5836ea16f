"""Workers that bring the parts of an output in a store, of models that lie here or in the store: the bytes of one
process, whatever dies.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("obstore")
pytest.importorskip("moto")

import smelt
from checkpoints import snapshot
from object_outputs import KIB, clean_store, model_store, write_pool
from s3_server import S3Server
from smelt.engine.cluster import driver, part_units
from smelt.engine.run.cpu import backend
from smelt.engine.sink.objects.sink import ObjectSink
from smelt.engine.sink.objects.upload import FileUpload
from smelt.errors import OutputError, RecipeError
from smelt.files.hashing.blake3 import compiled_blake3
from smelt.files.object_store.store import Part
from smelt.files.remote.read_ahead import ReadAhead
from smelt.files.remote.remote_file import RemoteFile
from smelt.jobs.executor import InlineExecutor, WorkerAnswer
from smelt.jobs.job import Job
from smelt.jobs.local import LocalExecutor
from smelt.jobs.worker import perform


class LastFirst(InlineExecutor):
    """Three jobs at once in this process, the last first; after so many answers it is interrupted."""

    workers = 3

    def __init__(self, answers: int = -1):
        super().__init__()
        self.left, self.calls = answers, 0

    def wait(self) -> WorkerAnswer:
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        self.calls += 1
        ticket, job = self._waiting.pop()
        return WorkerAnswer(ticket, perform(job.call, job.arguments))


class Mortal(LocalExecutor):
    """Two worker processes, one of which is killed as soon as it has the job with this number."""

    def __init__(self, killed: int):
        super().__init__(2)
        self.killed, self.given, self.deaths = killed, 0, 0

    def submit(self, ticket: int, job: Job) -> None:
        super().submit(ticket, job)
        self.given += 1
        if self.given == self.killed:
            os.kill(self._busy[ticket]._process.pid, signal.SIGKILL)

    def wait(self, seconds: float | None = None) -> WorkerAnswer | None:
        answer = super().wait(seconds)
        self.deaths += answer is not None and answer.answer is None
        return answer


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with model_store() as server:
        yield server


@pytest.fixture(autouse=True)
def _clean(server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(driver, "unit_size", lambda bytes_in: 1)
    monkeypatch.setattr(part_units, "_MOST", 1)
    monkeypatch.setenv("SMELT_CACHE", str(tmp_path / "cache"))
    with clean_store(server):
        yield


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return write_pool(tmp_path_factory.mktemp("pool"))


@pytest.fixture
def afar(server: S3Server, pool: dict[str, str]) -> dict[str, str]:
    """The same models in the store."""
    client = server.client()
    for name, folder in pool.items():
        for file in Path(folder).iterdir():
            client.put_object(Bucket="models", Key=f"team/{name}/{file.name}", Body=file.read_bytes())
    return {name: f"s3://models/team/{name}" for name in pool}


METHODS: dict[str, dict[str, Any]] = {
    "linear": {"method": "linear", "density": None},
    "ties": {},
    "ties by the model": {"method": {"ties": {"trim": "model", "density": 0.3}}, "density": None},
}


def made(pool: dict[str, str], out: str | Path, words: dict[str, Any], **more: Any) -> smelt.Summary:
    words = {"shard_size": "600KB", **words, **more}
    words = {"method": "ties", "density": 0.2, **words}
    if words["density"] is None:
        del words["density"]
    return smelt.merge({"cars": pool["cars"], "birds": pool["birds"]}, base=pool["base"], out=out, **words)


def seen(server: S3Server) -> dict[str, bytes]:
    """What can be seen of the output; nothing is left beside it."""
    found = server.objects("models")
    assert not server.uploads("models")
    assert not [key for key in found if "partial" in key]
    return {key.removeprefix("out/"): content for key, content in found.items() if key.startswith("out/")}


@pytest.mark.parametrize(
    ("where", "method"),
    [
        pytest.param("afar", "ties", marks=pytest.mark.slow),
        ("here", "linear"),
        pytest.param("afar", "linear", marks=pytest.mark.slow),
        pytest.param("afar", "ties by the model", marks=pytest.mark.slow),
        pytest.param("here", "ties by the model", marks=pytest.mark.slow),
        pytest.param("here", "ties", marks=pytest.mark.slow),
    ],
)
def test_jobs_in_any_order_bring_the_bytes_of_one_process(
    server: S3Server, pool: dict[str, str], afar: dict[str, str], tmp_path: Path, method: str, where: str
) -> None:
    models = pool if where == "here" else afar
    made(models, tmp_path / "out", METHODS[method])
    (tmp_path / "cache" / "hashes.json").unlink(missing_ok=True)
    team = LastFirst()
    made(models, "s3://models/out", METHODS[method], executor=team)
    assert team.calls >= 7
    assert seen(server) == snapshot(tmp_path / "out")


@pytest.mark.skipif(compiled_blake3() is None, reason="the hash was not compiled")
@pytest.mark.parametrize("method", ["ties", pytest.param("linear", marks=pytest.mark.slow)])
def test_two_processes_of_which_one_is_killed_merge_from_store_to_store(
    server: S3Server, afar: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Once the first job is given out, the driver fetches no byte of the models: it has their headers, and checked the
    base, when it planned. A base that `linear` does not look at is nobody's, and hashed by the driver.
    """
    made(afar, tmp_path / "out", METHODS[method])
    (tmp_path / "cache" / "hashes.json").unlink(missing_ok=True)
    fetched: list[tuple[str, int, int]] = []
    fetch = RemoteFile.fetch

    def noted(self: RemoteFile, start: int, end: int, **words: Any) -> memoryview:
        fetched.append((self.url, start, end))
        return fetch(self, start, end, **words)

    monkeypatch.setattr(RemoteFile, "fetch", noted)
    folders = tmp_path / "folders"
    folders.mkdir()
    monkeypatch.setenv("TMPDIR", str(folders))
    monkeypatch.setattr("tempfile.tempdir", str(folders))
    team = Mortal(4)
    monkeypatch.setattr(team, "start", lambda: (fetched.clear(), LocalExecutor.start(team)))
    made(afar, "s3://models/out", METHODS[method], executor=team)
    assert team.deaths == 1
    assert [url for url, _, _ in fetched] == ([f"{afar['base']}/model.safetensors"] if method == "linear" else [])
    assert seen(server) == snapshot(tmp_path / "out")
    assert smelt.verify("s3://models/out").ok
    assert list(folders.glob("smelt-afar-*")), "workers are killed at the end, and cannot tidy up"
    made(afar, tmp_path / "later", METHODS[method])
    assert not list(folders.glob("smelt-afar-*"))


def brought(server: S3Server) -> list[tuple[str, str]]:
    """File and number of the parts that came, as often as they came."""
    return [(path, query.partition("&uploadId")[0]) for how, path, query in server.requests if "partNumber" in query]


@pytest.mark.parametrize(("workers_first", "workers_then"), [(True, False), (False, True)])
def test_what_has_arrived_is_not_brought_again(
    server: S3Server,
    pool: dict[str, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    workers_first: bool,
    workers_then: bool,
) -> None:
    """One process goes on where workers stopped, and the other way round; all parts but one that waits for a header are
    brought once.
    """
    made(pool, tmp_path / "out", METHODS["linear"])
    first: dict[str, Any] = {"executor": LastFirst(5)} if workers_first else {}
    with monkeypatch.context() as patch:
        if not workers_first:
            patch.setattr("smelt.engine.sink.objects.sink.ObjectSink.complete", interrupted)
        with pytest.raises(OutputError, match="interrupted; what has arrived is kept in"):
            made(pool, "s3://models/out", METHODS["linear"], **first)
    assert not [key for key in server.objects("models") if key.startswith("out/")]
    before = brought(server)
    server.requests.clear()
    team = LastFirst()
    more: dict[str, Any] = {"executor": team} if workers_then else {}
    made(pool, "s3://models/out", METHODS["linear"], resume=True, **more)
    assert len(before) >= 2
    assert not set(before) & set(brought(server))
    assert team.calls == (0 if not workers_then else 2 if workers_first else 4)
    assert seen(server) == snapshot(tmp_path / "out")


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_driver_that_is_killed_is_followed_by_another(server: S3Server, pool: dict[str, str], tmp_path: Path) -> None:
    """It is killed when three parts are noted; its workers end with it."""
    made(pool, tmp_path / "out", METHODS["linear"])
    program = f"""
import os, signal, smelt
from smelt.engine.cluster import driver, part_units
from smelt.engine.sink.objects import upload
for name in ("FIRST_BYTES", "LEAST", "INSIDE"):
    setattr(upload, name, {256 * KIB})
driver.unit_size, part_units._MOST = (lambda bytes_in: 1), 1
take, noted = upload.FileUpload.take, []
def taken(self, *words):
    take(self, *words)
    noted.append(words)
    if len(noted) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
upload.FileUpload.take = taken
pool = {pool!r}
smelt.merge({{"cars": pool["cars"], "birds": pool["birds"]}}, base=pool["base"], method="linear", shard_size="600KB",
            out="s3://models/out", executor="local", workers=2)
"""
    ran = subprocess.run([sys.executable, "-c", program], timeout=120, env=dict(os.environ))
    assert ran.returncode == -signal.SIGKILL
    notes = [key for key in server.objects("models") if key.endswith(".part")]
    assert len(notes) >= 3
    noted = {(key.split("/")[-2], f"partNumber={Path(key).stem}") for key in notes}
    server.requests.clear()
    team = LastFirst()
    made(pool, "s3://models/out", METHODS["linear"], executor=team, resume=True)
    assert team.calls < 7
    again = {(path.rpartition("/")[2], number) for path, number in brought(server)}
    assert len(again) >= 4
    assert not noted & {(name, number.rpartition("&")[2]) for name, number in again}
    assert seen(server) == snapshot(tmp_path / "out")


def test_pieces_of_tensors_alone_are_fetched_ahead(
    server: S3Server, afar: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With spans of 16 KiB the units end inside of tensors; of each only what a unit merges is announced: all in all
    what the models hold, and not a tensor as often as it has parts.
    """
    for name, elements in (("_SPAN", 4096), ("_AT_ONCE", 2048)):
        monkeypatch.setattr(backend, name, elements)
    announced = []
    begin = ReadAhead.begin

    def noted(self: ReadAhead, wanted: Any) -> None:
        ranges = list(wanted)
        announced.extend(one for _, parts in ranges for one in parts)
        begin(self, ranges)

    made(afar, tmp_path / "out", METHODS["linear"])
    monkeypatch.setattr(ReadAhead, "begin", noted)
    made(afar, "s3://models/out", METHODS["linear"], executor=LastFirst())
    whole = 2 * sum(len(one) for name, one in snapshot(tmp_path / "out").items() if name.endswith(".safetensors"))
    assert 0.95 * whole < sum(one.end - one.start for one in announced) < 1.1 * whole
    assert seen(server) == snapshot(tmp_path / "out")


def test_what_a_fold_has_read_makes_room_for_what_it_wants_next(
    afar: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    close = ReadAhead.close

    def noted(self: ReadAhead) -> None:
        left.extend(piece.users for piece in self._pieces.values())
        close(self)

    monkeypatch.setattr(ReadAhead, "close", noted)
    made(afar, tmp_path / "out", METHODS["ties by the model"], executor=LastFirst())
    assert left
    assert set(left) == {0}


def test_an_address_that_only_the_driver_can_open_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as told:
        smelt.merge(
            ["https://me:secret@127.0.0.1:1/a", "https://127.0.0.1:1/b?sig=secret"],
            out=tmp_path / "out",
            method="linear",
            executor="local",
        )
    said = str(told.value)
    assert said.startswith("https://127.0.0.1:1/a: workers cannot open an address with a password")
    assert "credentials in its environment" in said
    assert "secret" not in said
    assert "\n" not in said


def test_a_part_that_was_brought_twice_goes_by_the_etag_that_the_store_has_now(
    server: S3Server, pool: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a store encrypts: the same bytes, and another ETag. Here the first one is made up."""
    take = FileUpload.take

    def taken(self: FileUpload, part: Part, packed: bytes) -> None:
        take(self, part._replace(etag="0" * 32), packed)

    monkeypatch.setattr(FileUpload, "take", taken)
    made(pool, tmp_path / "out", METHODS["linear"])
    made(pool, "s3://models/out", METHODS["linear"], executor=LastFirst())
    assert seen(server) == snapshot(tmp_path / "out")


def test_a_front_that_was_damaged_where_it_lay_is_made_again(
    server: S3Server, pool: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = ObjectSink.complete

    def damaged(self: ObjectSink, metadata: Any) -> Any:
        key = self.uploads[0].front_key()
        content = server.objects("models")[key]
        server.client().put_object(Bucket="models", Key=key, Body=content[:-1] + bytes([content[-1] ^ 1]))
        return complete(self, metadata)

    with monkeypatch.context() as patch:
        patch.setattr(ObjectSink, "complete", damaged)
        with pytest.raises(OutputError, match=r"first part of .* is damaged; run again"):
            made(pool, "s3://models/out", METHODS["linear"], executor=LastFirst())
    team = LastFirst()
    made(pool, "s3://models/out", METHODS["linear"], executor=team, resume=True)
    assert team.calls == 1
    made(pool, tmp_path / "out", METHODS["linear"])
    assert seen(server) == snapshot(tmp_path / "out")
