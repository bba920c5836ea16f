"""The run: jobs in, finished ones out as they come. Results that are stored are not computed again.

Jobs are taken from the iterable when a worker is free for them, one at a time: a generator may choose the next by what
has come back so far. Close the iterator (`contextlib.closing`) to end a run early; its workers end at once.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError, SmeltError
from smelt.jobs.executor import Executor, WorkerAnswer, find_executor
from smelt.jobs.failure import WorkerDied, unpack_error
from smelt.jobs.job import Job
from smelt.jobs.store import ResultStore

__all__ = ["Done", "run_jobs"]


@dataclass(frozen=True)
class Done:
    """A job and what came of it: a result, or an error."""

    job: Job
    result: Any
    error: SmeltError | None
    seconds: float
    """That its function took; of a stored result, then."""
    cached: bool
    attempts: int
    """How often it was begun in this run; none where the result was there."""

    @property
    def value(self) -> Any:
        """The result; raises the error where there is one."""
        if self.error is not None:
            raise self.error
        return self.result


def run_jobs(
    jobs: Iterable[Job],
    *,
    executor: str | Executor = "local",
    workers: int = 1,
    store: str | Path | None = None,
    retries: int = 1,
) -> Generator[Done, None, None]:
    """Run jobs and yield each as it is finished.

    `executor` is a name (`smelt.jobs.executor.EXECUTORS`) or an object; `workers` jobs run at once. `store` is a folder
    for the results; equal jobs are computed once with it or without. A job whose worker dies is begun again in a fresh
    one, up to `retries` times; an exception of its function is its error, at once. Errors are the caller's to judge:
    the other jobs go on.
    """
    if retries < 0:
        raise RecipeError(f"retries: at least 0, got {retries}")
    results = ResultStore(store) if store is not None else None
    return _JobRun(find_executor(executor, workers), results, retries).go(iter(jobs))


class _JobRun:
    """One run on its way."""

    def __init__(self, team: Executor, store: ResultStore | None, retries: int):
        self.team, self.store, self.retries = team, store, retries
        self.under_way: dict[int, Job] = {}
        self.attempts: dict[int, int] = {}
        self.twins: dict[str, list[Job]] = {}
        """Equal jobs that came while the first of them was under way, by their key."""

    def go(self, jobs: Iterator[Job]) -> Generator[Done, None, None]:
        try:
            while True:
                yield from self._fill(jobs)
                if not self.under_way:
                    return
                yield from self._settle(self.team.wait())
        finally:
            if self.attempts:
                self.team.stop()

    def _fill(self, jobs: Iterator[Job]) -> Iterator[Done]:
        """Give work to every free worker; what needs none is done at once."""
        while len(self.under_way) < self.team.workers and (job := next(jobs, None)) is not None:
            kept = self.store.read(job) if self.store else None
            if kept is not None:
                yield Done(job, kept.result, None, kept.seconds, cached=True, attempts=0)
            elif job.key in self.twins:
                self.twins[job.key].append(job)
            else:
                if not self.attempts:
                    self.team.start()
                ticket = len(self.attempts)
                self.under_way[ticket], self.attempts[ticket], self.twins[job.key] = job, 1, []
                self.team.submit(ticket, job)

    def _settle(self, finished: WorkerAnswer) -> Iterator[Done]:
        ticket, answer, death = finished
        job, attempts = self.under_way[ticket], self.attempts[ticket]
        if answer is None and attempts <= self.retries:
            self.attempts[ticket] += 1
            self.team.submit(ticket, job)
            return
        del self.under_way[ticket]
        result: Any = None
        error: SmeltError | None = None
        seconds = 0.0
        if answer is None:
            error = WorkerDied(f"{job.label}: its worker died{_times(attempts)}; {death}")
        else:
            seconds = answer["seconds"]
            error = unpack_error(answer["failure"]) if "failure" in answer else None
            result = answer.get("result")
        if error is None and self.store is not None:
            self.store.write(job, result, seconds)
        twins = self.twins.pop(job.key)
        yield Done(job, result, error, seconds, cached=False, attempts=attempts)
        for twin in twins:
            yield Done(twin, result, error, seconds, cached=True, attempts=0)


def _times(count: int) -> str:
    return "" if count == 1 else f" {count} times"
