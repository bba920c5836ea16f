"""The run: jobs in, finished ones out as they come. Results that are stored are not computed again.

Jobs are taken from the iterable when a worker is free for them, one at a time: a generator may choose the next by what
has come back so far. Where it yields None it has nothing as long as no other job is finished. Close the iterator
(`contextlib.closing`) to end a run early; its workers end at once.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError, SmeltError
from smelt.jobs.executor import DroppingExecutor, Executor, WorkerAnswer, find_executor
from smelt.jobs.failure import WorkerDied, unpack_error
from smelt.jobs.job import Job
from smelt.jobs.store import ResultStore

__all__ = ["Done", "run_jobs"]

_LEAST_LATE = 2.0
"""Seconds that a job may take at least before it counts as late."""
_LOOK = 0.5
"""Seconds after which jobs that are under way are looked at."""


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
    jobs: Iterable[Job | None],
    *,
    executor: str | Executor = "local",
    workers: int = 1,
    store: str | Path | None = None,
    retries: int = 1,
    late: float | None = None,
) -> Generator[Done, None, None]:
    """Run jobs and yield each as it is finished.

    `executor` is a name (`smelt.jobs.executor.EXECUTORS`) or an object; `workers` jobs run at once. `store` is a folder
    for the results; equal jobs are computed once with it or without. A job whose worker dies is begun again in a fresh
    one, up to `retries` times; an exception of its function is its error, at once. Errors are the caller's to judge:
    the other jobs go on. With `late`, a job that takes so many times as long as half of the others did is given to a
    second worker as well, once there is nothing else to do; the first answer counts, and the other worker is stopped.
    """
    if retries < 0:
        raise RecipeError(f"retries: at least 0, got {retries}")
    results = ResultStore(store) if store is not None else None
    return _JobRun(find_executor(executor, workers), results, retries, late).go(iter(jobs))


@dataclass
class _UnderWay:
    """A job that somebody works on, or two."""

    job: Job
    tickets: set[int] = field(default_factory=set)
    attempts: int = 0
    twins: list[Job] = field(default_factory=list)
    """Equal jobs that came meanwhile."""
    began: float = field(default_factory=time.monotonic)


class _JobRun:
    """One run on its way."""

    def __init__(self, team: Executor, store: ResultStore | None, retries: int, late: float | None):
        self.team, self.store, self.retries, self.late = team, store, retries, late
        self.under_way: dict[str, _UnderWay] = {}
        """By the keys of the jobs."""
        self.tickets: dict[int, _UnderWay] = {}
        self.issued = 0
        self.took: list[float] = []

    def go(self, jobs: Iterator[Job | None]) -> Generator[Done, None, None]:
        try:
            while True:
                yield from self._fill(jobs)
                if not self.under_way:
                    return
                finished = self._next_answer()
                if finished is not None and finished.ticket in self.tickets:
                    yield from self._settle(finished)
        finally:
            if self.issued:
                self.team.stop()

    def _fill(self, jobs: Iterator[Job | None]) -> Iterator[Done]:
        """Give work to every free worker; what needs none is done at once."""
        while len(self.tickets) < self.team.workers and (job := next(jobs, None)) is not None:
            kept = self.store.read(job) if self.store else None
            if kept is not None:
                yield Done(job, kept.result, None, kept.seconds, cached=True, attempts=0)
            elif job.key in self.under_way:
                self.under_way[job.key].twins.append(job)
            else:
                if not self.issued:
                    self.team.start()
                self.under_way[job.key] = _UnderWay(job)
                self._begin(self.under_way[job.key])

    def _begin(self, one: _UnderWay) -> None:
        ticket, self.issued = self.issued, self.issued + 1
        one.tickets.add(ticket)
        one.attempts += 1
        self.tickets[ticket] = one
        self.team.submit(ticket, one.job)

    def _next_answer(self) -> WorkerAnswer | None:
        """The next answer; late jobs are given to free workers while there is none."""
        team = self.team
        if self.late is None or not self.took or len(self.tickets) >= team.workers:
            return team.wait()
        if not isinstance(team, DroppingExecutor):
            return team.wait()
        patience = max(_LEAST_LATE, self.late * statistics.median(self.took))
        for one in [one for one in self.under_way.values() if len(one.tickets) == 1]:
            if time.monotonic() - one.began > patience and len(self.tickets) < self.team.workers:
                self._begin(one)
        return team.wait(_LOOK)

    def _settle(self, finished: WorkerAnswer) -> Iterator[Done]:
        one = self.tickets.pop(finished.ticket)
        one.tickets.discard(finished.ticket)
        if finished.answer is None and one.tickets:
            return
        if finished.answer is None and one.attempts <= self.retries:
            self._begin(one)
            return
        for ticket in one.tickets:
            if isinstance(self.team, DroppingExecutor):
                self.team.drop(ticket)
            del self.tickets[ticket]
        del self.under_way[one.job.key]
        self.took.append(time.monotonic() - one.began)
        yield from self._done(one, finished)

    def _done(self, one: _UnderWay, finished: WorkerAnswer) -> Iterator[Done]:
        result: Any = None
        error: SmeltError | None = None
        seconds = 0.0
        if finished.answer is None:
            error = WorkerDied(f"{one.job.label}: its worker died{_times(one.attempts)}; {finished.death}")
        else:
            seconds = finished.answer["seconds"]
            error = unpack_error(finished.answer["failure"]) if "failure" in finished.answer else None
            result = finished.answer.get("result")
        if error is None and self.store is not None:
            self.store.write(one.job, result, seconds)
        yield Done(one.job, result, error, seconds, cached=False, attempts=one.attempts)
        for twin in one.twins:
            yield Done(twin, result, error, seconds, cached=True, attempts=0)


def _times(count: int) -> str:
    return "" if count == 1 else f" {count} times"
