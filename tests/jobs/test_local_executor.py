"""Worker processes for real: they last, they die, they are stopped."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from smelt.errors import IncompatibleModels, RecipeError
from smelt.jobs.failure import JobFailed, WorkerDied
from smelt.jobs.job import Job
from smelt.jobs.run import Done, run_jobs
from smelt.jobs.worker import cores
from work_for_tests import calls


def job(function: str, **words: Any) -> Job:
    return Job(f"work_for_tests:{function}", words)


def local(*jobs: Job, **words: Any) -> list[Done]:
    return list(run_jobs(jobs, executor="local", **words))


def soon(true: Callable[[], bool], seconds: float = 240) -> bool:
    until = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until:
            return False
        time.sleep(0.02)
    return True


def alive(pid: int) -> bool:
    """Whether a process still runs; one that has ended but was not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_one_worker_keeps_what_it_loaded_and_has_all_cores() -> None:
    first, second, third = local(*(job("who", number=number) for number in range(3)))
    assert first.result["pid"] == second.result["pid"] == third.result["pid"] != os.getpid()
    assert third.result["seen"] == [0, 1, 2]
    assert first.result["threads"] == str(cores())


def test_several_workers_share_the_cores_and_torch_keeps_to_its_share() -> None:
    (one,) = local(job("torch_threads"), workers=cores())
    assert one.result == 1


def test_jobs_run_at_the_same_time_and_come_as_they_finish(tmp_path: Path) -> None:
    slow, quick = (job("wait", seconds=seconds, folder=str(tmp_path)) for seconds in (1.5, 0.1))
    done = local(slow, quick, workers=2)
    assert [one.result for one in done] == [0.1, 1.5]


@pytest.mark.parametrize(("how", "said"), [("kill", "killed by SIGKILL"), ("exit", "it ended with 3")])
def test_a_worker_that_dies_costs_its_job_and_no_other(tmp_path: Path, how: str, said: str) -> None:
    done = local(job("die", how=how, folder=str(tmp_path)), *(job("square", number=n) for n in (2, 3)), workers=2)
    by = {one.job.call.partition(":")[2]: one for one in done}
    assert sorted(one.result for one in done if one.error is None) == [4, 9]
    assert isinstance(by["die"].error, WorkerDied)
    assert f"its worker died 2 times; {said}" in str(by["die"].error).replace("it was ", "")
    assert (by["die"].attempts, calls(tmp_path, "die")) == (2, 2)


def test_a_job_whose_worker_dies_once_is_done_by_a_fresh_one(tmp_path: Path) -> None:
    before, revived, after = local(
        job("who", number=1), job("die", how="kill", folder=str(tmp_path), times=1), job("who", number=2)
    )
    assert (revived.result, revived.attempts, revived.error) == ("survived", 2, None)
    assert before.result["pid"] != after.result["pid"]
    assert after.result["seen"] == [2]


def test_errors_cross_processes_with_class_text_and_place() -> None:
    recipe, models, other = local(*(job("fail", kind=kind) for kind in ("recipe", "models", "other")))
    assert (type(recipe.error), str(recipe.error)[:15]) == (RecipeError, "no merge method")
    assert type(models.error) is IncompatibleModels
    assert models.error.faults == ("cars has no head", "birds has two")
    assert type(other.error) is JobFailed
    assert "ZeroDivisionError: by nothing" in str(other.error)
    assert "in fail (" in str(other.error)
    assert [one.attempts for one in (recipe, models, other)] == [1, 1, 1]


def test_what_a_job_prints_is_no_answer(capfd: pytest.CaptureFixture[str]) -> None:
    (done,) = local(job("talk", text='{"result": 1}'))
    assert done.result == '{"result": 1}'
    out, err = capfd.readouterr()
    assert out == ""
    assert "straight to stdout" in err


def test_a_run_that_is_closed_ends_its_workers_at_once(tmp_path: Path) -> None:
    jobs = [job("who", number=1), job("wait", seconds=600, folder=str(tmp_path))]
    with closing(run_jobs(jobs, workers=2)) as done:
        pid = next(done).result["pid"]
        assert soon(lambda: calls(tmp_path, "began600") == 1)
    assert not alive(pid)


PROGRAM = """
import sys
sys.path.insert(0, {here!r})
from smelt.jobs.job import Job
from smelt.jobs.run import run_jobs
jobs = [Job("work_for_tests:square", {{"number": 7}}), Job("work_for_tests:who", {{"number": 7}})]
jobs += [Job("work_for_tests:wait", {{"seconds": 600 + n, "folder": {marks!r}}}) for n in range(2)]
for done in run_jobs(jobs, workers=2, store={store!r}):
    print(done.result["pid"] if isinstance(done.result, dict) else done.result, flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_stopping_the_run_stops_its_workers_and_leaves_finished_results(tmp_path: Path, how: signal.Signals) -> None:
    marks, store = tmp_path / "marks", tmp_path / "store"
    marks.mkdir()
    here = str(Path(__file__).parents[1] / "support")
    program = PROGRAM.format(here=here, marks=str(marks), store=str(store))
    run = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert run.stdout is not None
    try:
        seen = {int(run.stdout.readline()) for _ in range(2)}
        assert soon(lambda: calls(marks, "began") == 2)
        run.send_signal(how)
        run.wait(240)  # far less than its jobs would take
    finally:
        run.kill()
        run.stdout.close()
    (pid,) = seen - {49}
    assert soon(lambda: not alive(pid), 10)
    assert calls(marks, "ended") == 0
    (again,) = run_jobs([Job("work_for_tests:square", {"number": 7})], store=store)
    assert (again.cached, again.result) == (True, 49)


def test_a_late_job_is_given_to_a_second_worker_and_the_first_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of two workers hangs in job 1; when the squares are done, the second one begins it again."""
    monkeypatch.setattr("smelt.jobs.run._LEAST_LATE", 0.3)
    jobs = [job("hang", folder=str(tmp_path), number=1), *(job("square", number=n) for n in range(2, 6))]
    done = local(*jobs, workers=2, late=3.0)
    assert [one.result for one in done] == [4, 9, 16, 25, 1]
    assert [one.attempts for one in done] == [1, 1, 1, 1, 2]
    assert calls(tmp_path, "hang1.") == 2


def test_a_generator_that_has_no_job_yet_is_asked_again() -> None:
    """The next job follows from the result of the one before."""
    found: list[int] = []

    def jobs() -> Iterator[Job | None]:
        for _ in range(3):
            known = len(found)
            yield job("square", number=found[-1] if found else 2)
            while len(found) == known:
                yield None

    for done in run_jobs(jobs(), executor="local", workers=2):
        found.append(done.result)
    assert found == [4, 16, 256]
