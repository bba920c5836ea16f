"""A real Ray cluster on this machine, of two cores."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ray_cluster import ray_cluster
from smelt.errors import RecipeError
from smelt.jobs.failure import WorkerDied
from smelt.jobs.job import Job
from smelt.jobs.run import Done, run_jobs
from work_for_tests import calls

ray = pytest.importorskip(
    "ray", reason="RAY IS NOT INSTALLED (pip install 'smelt[cluster]'): its executor is not tested"
)


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    with ray_cluster():
        yield


def on_ray(*jobs: Job, **words: Any) -> list[Done]:
    return list(run_jobs(jobs, executor="ray", **words))


def job(function: str, **words: Any) -> Job:
    return Job(f"work_for_tests:{function}", words)


def test_results_errors_and_deaths_come_back_from_the_cluster_and_are_computed_once(tmp_path: Path) -> None:
    marks, once, store = tmp_path / "marks", tmp_path / "once", tmp_path / "store"
    for folder in (marks, once):
        folder.mkdir()
    jobs = [
        *(job("square", number=number, folder=str(marks)) for number in (2, 3)),
        job("fail", kind="recipe"),
        job("die", how="kill", folder=str(once), times=1),
        job("die", how="exit", folder=str(marks)),
    ]
    done = {one.job.key: one for one in on_ray(*jobs, workers=2, store=store)}
    two, three, wrong, revived, dead = (done[one.key] for one in jobs)
    assert (two.result, three.result) == (4, 9)
    assert type(wrong.error) is RecipeError
    assert (revived.result, revived.attempts) == ("survived", 2)
    assert isinstance(dead.error, WorkerDied)
    assert "its worker died 2 times; Ray says" in str(dead.error)
    again = {one.job.key: one for one in on_ray(*jobs[:2], workers=2, store=store)}
    assert all(one.cached for one in again.values())
    assert calls(marks, "square") == 2


def test_a_cluster_that_was_there_before_stays_and_its_workers_know_their_cores() -> None:
    (done,) = on_ray(job("who", number=1), workers=2)
    assert done.result["pid"] != os.getpid()
    assert done.result["threads"] == "1"
    assert ray.is_initialized()


PROGRAM = """
import sys
sys.path.insert(0, {here!r})
from smelt.jobs.job import Job
from smelt.jobs.run import run_jobs
jobs = [Job("work_for_tests:square", {{"number": number}}) for number in range(4)]
print(sorted(done.value for done in run_jobs(jobs, executor="ray", workers=2)))
import ray
print(ray.is_initialized())
"""


@pytest.mark.slow
def test_where_there_is_no_cluster_one_is_started_and_ended() -> None:
    program = PROGRAM.format(here=str(Path(__file__).parents[1] / "support"))
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert ran.stdout.splitlines()[-2:] == ["[0, 1, 4, 9]", "False"], ran.stderr
