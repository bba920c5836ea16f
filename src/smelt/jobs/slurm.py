"""Jobs through Slurm's queue, by submitit: one Slurm job each, in a folder that all nodes see."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from smelt.errors import MissingExtra, RecipeError
from smelt.files.remote_code import is_trusted
from smelt.jobs.executor import WorkerAnswer
from smelt.jobs.job import Job
from smelt.jobs.worker import perform_with

__all__ = ["SlurmExecutor", "read_words"]

_POLL = 0.2


class SlurmExecutor:
    """At most `workers` jobs in the queue at a time.

    `folder` holds what travels and the logs; it lies in Smelt's cache by default. `cluster="local"` runs the same
    without Slurm. Other words are submitit's: `timeout_min`, `cpus_per_task`, `gpus_per_node`, `mem_gb`,
    `slurm_partition`, ...
    """

    def __init__(self, workers: int = 1, *, folder: str | Path | None = None, cluster: str = "slurm", **words: Any):
        self._workers, self._folder, self._cluster = workers, folder, cluster
        self._words = {"name": "smelt", "cpus_per_task": 1, **words}
        self._jobs: dict[int, Any] = {}
        self._queue: Any = None

    @property
    def workers(self) -> int:
        return self._workers

    def start(self) -> None:
        submitit = _submitit()
        from smelt.files.cache import cached_path

        try:
            self._queue = submitit.AutoExecutor(self._folder or cached_path("slurm"), cluster=self._cluster)
            self._queue.update_parameters(**self._words)
        except (RuntimeError, ValueError, NameError, TypeError) as error:
            raise RecipeError(f"the executor 'slurm': {str(error).strip().splitlines()[0]}") from None

    def submit(self, ticket: int, job: Job) -> None:
        threads = int(self._words["cpus_per_task"])
        words = (threads, sys.path, job.call, dict(job.arguments), is_trusted())
        self._jobs[ticket] = self._queue.submit(perform_with, *words)

    def wait(self, seconds: float | None = None) -> WorkerAnswer | None:
        until = time.monotonic() + (float("inf") if seconds is None else seconds)
        while True:
            for ticket, job in self._jobs.items():
                if job.done():
                    del self._jobs[ticket]
                    return _finished(ticket, job)
            if time.monotonic() > until:
                return None
            time.sleep(_POLL)

    def drop(self, ticket: int) -> None:
        job = self._jobs.pop(ticket, None)
        if job is not None:
            job.cancel(check=False)

    def stop(self) -> None:
        for job in self._jobs.values():
            job.cancel(check=False)
        self._jobs.clear()


def read_words(text: str) -> dict[str, Any]:
    """`partition=gpu,timeout_min=60` as words of a SlurmExecutor; Slurm's own names get submitit's prefix."""
    words: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name.isidentifier():
            raise RecipeError(f"the executor 'slurm' takes words as partition=gpu,timeout_min=60; got {part!r}")
        name = f"slurm_{name}" if name in ("partition", "qos", "account", "constraint") else name
        words[name] = int(value) if value.isdigit() else value
    return words


def _finished(ticket: int, job: Any) -> WorkerAnswer:
    try:
        return WorkerAnswer(ticket, job.result())
    except Exception as error:  # submitit raises several kinds, and what it could not unpickle
        said = " ".join(str(error).split("\n----", 1)[0].split())
        return WorkerAnswer(ticket, None, f"Slurm job {job.job_id} ended without an answer ({said})")


def _submitit() -> Any:
    try:
        import submitit
    except ImportError:
        raise MissingExtra("the executor 'slurm' needs submitit: pip install 'smelt[cluster]'") from None
    return submitit
