"""The executor that is no other process: jobs run here, one after the other. A crash is the caller's own."""

from __future__ import annotations

from smelt.jobs.executor import WorkerAnswer
from smelt.jobs.job import Job
from smelt.jobs.perform import perform

__all__ = ["InlineExecutor"]


class InlineExecutor:
    """Jobs in this process."""

    workers = 1

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Job]] = []

    def start(self) -> None:
        """Nothing to do."""

    def submit(self, ticket: int, job: Job) -> None:
        self._waiting.append((ticket, job))

    def wait(self) -> WorkerAnswer:
        ticket, job = self._waiting.pop(0)
        return WorkerAnswer(ticket, perform(job.call, job.arguments))

    def stop(self) -> None:
        self._waiting.clear()
