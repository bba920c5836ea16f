"""Merges on a real Ray cluster on this machine, and through submitit's own local queue."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import smelt
from checkpoints import random_state, snapshot, write_model
from ray_cluster import ray_cluster
from smelt.engine.cluster import driver
from smelt.jobs.executor import WorkerAnswer
from smelt.jobs.job import Job
from smelt.jobs.ray import RayExecutor
from smelt.jobs.slurm import SlurmExecutor

SHAPES: dict[str, tuple[int, ...]] = {f"layers.{n}.up.weight": (60, 70) for n in range(4)} | {"norm.weight": (61,)}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip(
        "ray", reason="RAY IS NOT INSTALLED (pip install 'smelt[cluster]'): merges on it are not tested"
    )
    with ray_cluster() as ray:
        yield ray


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(driver, "unit_size", lambda bytes_in: 1)
    paths = {
        name: write_model(tmp_path / name, {key: one.bfloat16() for key, one in random_state(seed, SHAPES).items()})
        for seed, name in enumerate(("base", "cars", "birds"))
    }
    models = [str(paths["cars"]), str(paths["birds"])]
    return {"models": models, "base": str(paths["base"]), "method": "ties", "shard_size": "20KB"}


def one_process(words: dict[str, Any], tmp_path: Path) -> dict[str, bytes]:
    smelt.merge(**words, out=tmp_path / "alone" / "out")
    return snapshot(tmp_path / "alone" / "out")


class Dying(RayExecutor):
    """The worker of one job ends before it."""

    deaths = 0

    def submit(self, ticket: int, job: Job) -> None:
        super().submit(ticket, Job("os:_exit", {"status": 3}) if ticket == 7 else job)

    def wait(self, seconds: float | None = None) -> WorkerAnswer | None:
        answer = super().wait(seconds)
        self.deaths += answer is not None and answer.answer is None
        return answer


def test_workers_on_ray_give_the_same_bytes_though_one_dies(
    cluster: Any, words: dict[str, Any], tmp_path: Path
) -> None:
    team = Dying(2)
    smelt.merge(**words, out=tmp_path / "many" / "out", executor=team)
    assert team.deaths == 1
    assert snapshot(tmp_path / "many" / "out") == one_process(words, tmp_path)


def test_jobs_in_slurms_queue_have_several_units_each(
    words: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five units for one worker that is to have two jobs: two units each, and the last one."""
    pytest.importorskip(
        "submitit", reason="SUBMITIT IS NOT INSTALLED (pip install 'smelt[cluster]'): merges by Slurm are not tested"
    )
    monkeypatch.setattr("submitit.core.core.Job._results_timeout_s", 0)
    given: list[int] = []
    submit = SlurmExecutor.submit

    def counted(self: SlurmExecutor, ticket: int, job: Job) -> None:
        given.append(len(job.arguments["pieces"]))
        submit(self, ticket, job)

    monkeypatch.setattr(SlurmExecutor, "submit", counted)
    words["method"] = "average"
    monkeypatch.setattr(driver, "_JOBS_EACH", 2)
    team = SlurmExecutor(1, folder=tmp_path / "queue", cluster="local", timeout_min=2)
    smelt.merge(**words, out=tmp_path / "many" / "out", executor=team)
    assert given == [2, 2, 1]
    assert snapshot(tmp_path / "many" / "out") == one_process(words, tmp_path)
