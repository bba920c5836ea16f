"""Slurm's executor through submitit's own local queue: the same path without a cluster."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from smelt.errors import RecipeError
from smelt.jobs.failure import WorkerDied
from smelt.jobs.job import Job
from smelt.jobs.run import Done, run_jobs
from smelt.jobs.slurm import SlurmExecutor, read_words
from work_for_tests import calls

pytest.importorskip(
    "submitit", reason="SUBMITIT IS NOT INSTALLED (pip install 'smelt[cluster]'): the Slurm executor is not tested"
)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing answer is not waited for: no network lies between."""
    monkeypatch.setattr("submitit.core.core.Job._results_timeout_s", 0)


def queued(*jobs: Job, folder: Path, **words: Any) -> list[Done]:
    executor = SlurmExecutor(2, folder=folder, cluster="local", timeout_min=1)
    return list(run_jobs(jobs, executor=executor, **words))


def job(function: str, **words: Any) -> Job:
    return Job(f"work_for_tests:{function}", words)


def test_results_errors_and_deaths_come_back_from_the_queue(tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    jobs = [
        job("square", number=3),
        job("fail", kind="recipe"),
        job("die", how="kill", folder=str(marks)),
        job("who", number=1),
    ]
    done = {one.job.key: one for one in queued(*jobs, folder=tmp_path / "queue", store=tmp_path / "store")}
    fine, wrong, dead, who = (done[one.key] for one in jobs)
    assert fine.result == 9
    assert (type(wrong.error), wrong.attempts) == (RecipeError, 1)
    assert isinstance(dead.error, WorkerDied)
    assert (dead.attempts, calls(marks, "die")) == (2, 2)
    assert who.result["threads"] == "1"
    (again,) = queued(jobs[0], folder=tmp_path / "queue", store=tmp_path / "store")
    assert again.cached


def test_words_of_the_command_line_become_submitits() -> None:
    assert read_words("partition=gpu,timeout_min=60") == {"slurm_partition": "gpu", "timeout_min": 60}
    assert read_words("") == {}


@pytest.mark.skipif(shutil.which("srun") is not None, reason="there is a Slurm here")
def test_without_slurm_it_is_refused_when_there_is_work() -> None:
    with pytest.raises(RecipeError, match=r"the executor 'slurm': .*srun"):
        list(run_jobs([job("square", number=1)], executor="slurm"))


def test_a_word_that_submitit_does_not_know_is_refused(tmp_path: Path) -> None:
    executor = SlurmExecutor(1, folder=tmp_path, cluster="local", gpu_per_nod=1)
    with pytest.raises(RecipeError, match="gpu_per_nod"):
        list(run_jobs([job("square", number=1)], executor=executor))
