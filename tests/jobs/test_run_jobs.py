"""Runs in this process: order, twins, the store, errors. What needs other processes is in test_local_executor."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from smelt.errors import IncompatibleModels, RecipeError, SmeltError
from smelt.jobs.executor import Executor, WorkerAnswer, find_executor
from smelt.jobs.failure import JobFailed
from smelt.jobs.job import Job
from smelt.jobs.run import Done, run_jobs
from smelt.jobs.worker import perform
from work_for_tests import calls


def square(number: int, **words: Any) -> Job:
    return Job("work_for_tests:square", {"number": number, **words})


def inline(*jobs: Job, **words: Any) -> list[Done]:
    return list(run_jobs(jobs, executor="inline", **words))


def test_each_job_comes_back_with_its_result() -> None:
    done = inline(square(2), square(3))
    assert [(one.result, one.value, one.cached, one.attempts, one.error) for one in done] == [
        (4, 4, False, 1, None),
        (9, 9, False, 1, None),
    ]
    assert all(one.seconds >= 0 for one in done)


def test_a_second_run_computes_nothing(tmp_path: Path) -> None:
    marks, store = tmp_path / "marks", tmp_path / "store"
    marks.mkdir()
    jobs = [square(number, folder=str(marks)) for number in range(3)]
    first, second = inline(*jobs, store=store), inline(*reversed(jobs), store=store)
    assert [one.result for one in second] == [4, 1, 0]
    assert [one.cached for one in first + second] == [False] * 3 + [True] * 3
    assert [one.seconds for one in reversed(second)] == [one.seconds for one in first]
    assert calls(marks) == 3


def test_a_damaged_result_is_the_only_one_computed_again(tmp_path: Path) -> None:
    from smelt.jobs.store import ResultStore

    jobs = [square(number) for number in range(3)]
    inline(*jobs, store=tmp_path)
    ResultStore(tmp_path).path(jobs[1]).write_text("{")
    assert [one.cached for one in inline(*jobs, store=tmp_path)] == [True, False, True]
    assert all(one.cached for one in inline(*jobs, store=tmp_path))


def test_without_a_store_nothing_is_kept(tmp_path: Path) -> None:
    for _ in range(2):
        inline(square(1, folder=str(tmp_path)))
    assert calls(tmp_path) == 2


class Gathering:
    """Two workers that begin nothing until they are waited for."""

    workers = 2

    def __init__(self, *deaths: str):
        self.begun: list[tuple[int, Job]] = []
        self.deaths = list(deaths)
        self.log: list[str] = []

    def start(self) -> None:
        self.log.append("start")

    def submit(self, ticket: int, job: Job) -> None:
        self.begun.append((ticket, job))

    def wait(self) -> WorkerAnswer:
        ticket, job = self.begun.pop(0)
        if self.deaths:
            return WorkerAnswer(ticket, None, self.deaths.pop(0))
        return WorkerAnswer(ticket, perform(job.call, job.arguments))

    def stop(self) -> None:
        self.log.append("stop")


def test_an_equal_job_that_is_under_way_is_waited_for_not_repeated(tmp_path: Path) -> None:
    twins = [square(5, folder=str(tmp_path)), Job("work_for_tests:square", {"number": 5, "folder": str(tmp_path)}, "b")]
    done = list(run_jobs(twins, executor=Gathering()))
    assert [(one.job.name, one.result, one.cached) for one in done] == [("", 25, False), ("b", 25, True)]
    assert calls(tmp_path) == 1


def test_anything_with_the_five_members_is_an_executor_and_is_started_and_stopped_once() -> None:
    mine = Gathering()
    assert isinstance(mine, Executor)
    assert [one.result for one in run_jobs([square(2), square(3), square(4)], executor=mine)] == [4, 9, 16]
    assert mine.log == ["start", "stop"]


def test_an_executor_that_has_nothing_to_do_is_not_started(tmp_path: Path) -> None:
    inline(square(2), store=tmp_path)
    mine = Gathering()
    assert [one.result for one in run_jobs([square(2)], executor=mine, store=tmp_path)] == [4]
    assert mine.log == []


@pytest.mark.parametrize(
    ("deaths", "retries", "attempts", "lost"),
    [(1, 1, 2, False), (2, 1, 2, True), (1, 0, 1, True), (3, 3, 4, False)],
)
def test_a_job_is_begun_again_as_often_as_is_allowed(deaths: int, retries: int, attempts: int, lost: bool) -> None:
    mine = Gathering(*["it ended with 3"] * deaths)
    mine.workers = 1
    (done,) = run_jobs([square(2)], executor=mine, retries=retries)
    assert (done.attempts, done.error is not None, done.result) == (attempts, lost, None if lost else 4)
    if lost:
        times = f" {attempts} times" if attempts > 1 else ""
        assert str(done.error).endswith(f"its worker died{times}; it ended with 3")


def test_jobs_are_taken_when_a_worker_is_free_so_that_results_may_choose_the_next() -> None:
    seen: list[int] = []

    def until_large() -> Iterator[Job]:
        number = 2
        while number < 1000:
            yield square(number)
            number = seen[-1]

    for done in run_jobs(until_large(), executor="inline"):
        seen.append(done.result)
    assert seen == [4, 16, 256, 65536]


def test_smelts_own_errors_keep_their_class_and_text_and_the_others_go_on() -> None:
    jobs = [Job("work_for_tests:fail", {"kind": kind}) for kind in ("recipe", "models", "other", "exit")]
    recipe, models, other, left, fine = inline(*jobs, square(3))
    assert type(recipe.error) is RecipeError
    assert str(recipe.error) == "no merge method named 'tise' (did you mean 'ties'?)"
    assert type(models.error) is IncompatibleModels
    assert models.error.faults == ("cars has no head", "birds has two")
    assert type(other.error) is JobFailed
    assert str(other.error).startswith("ZeroDivisionError: by nothing\n")
    assert "in fail (" in str(other.error)
    assert "work_for_tests.py, line" in str(other.error)
    assert str(left.error).startswith("SystemExit: 4")
    assert (fine.result, recipe.attempts) == (9, 1)
    with pytest.raises(RecipeError, match="tise"):
        _ = recipe.value


def test_an_error_is_not_stored(tmp_path: Path) -> None:
    job = Job("work_for_tests:fail", {"kind": "other"})
    assert [inline(job, store=tmp_path)[0].cached for _ in range(2)] == [False, False]


@pytest.mark.parametrize(
    ("what", "said"), [("path", "result of work_for_tests:hand_back is a"), ("nan", "is nan"), ("keys", "the key 1")]
)
def test_a_result_that_is_not_plain_is_the_jobs_error(what: str, said: str) -> None:
    (done,) = inline(Job("work_for_tests:hand_back", {"what": what}))
    assert isinstance(done.error, RecipeError)
    assert said in str(done.error)


def test_a_result_is_the_same_fresh_and_stored(tmp_path: Path) -> None:
    job = Job("work_for_tests:hand_back", {"what": "tuple"})
    assert [inline(job, store=tmp_path)[0].result for _ in range(2)] == [[1, [2]], [1, [2]]]


def test_a_function_that_is_not_there_is_the_jobs_error() -> None:
    lost, misspelt = inline(Job("no_such_module:f"), Job("work_for_tests:sqare"))
    assert "No module named 'no_such_module'" in str(lost.error)
    assert "no function named 'sqare' (did you mean 'square'?)" in str(misspelt.error)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("locl", "no executor named 'locl' .did you mean 'local'"),
        ("local:8", "'local' takes no words"),
        ("slurm:gpu", "takes words as partition=gpu"),
    ],
)
def test_an_unknown_executor_is_refused_before_anything_runs(name: str, said: str) -> None:
    with pytest.raises(RecipeError, match=said):
        run_jobs([square(1)], executor=name)


def test_numbers_of_workers_and_retries_are_checked() -> None:
    with pytest.raises(RecipeError, match="workers: at least 1, got 0"):
        find_executor("local", 0)
    with pytest.raises(RecipeError, match="retries: at least 0, got -1"):
        run_jobs([], retries=-1)


def test_an_address_where_no_cluster_answers_is_an_error_at_once() -> None:
    pytest.importorskip("ray", reason="RAY IS NOT INSTALLED (pip install 'smelt[cluster]'): its executor is not tested")
    with pytest.raises(SmeltError, match=r"no Ray cluster at 127.0.0.1:1: .*refused"):
        list(run_jobs([square(1)], executor="ray:127.0.0.1:1"))
