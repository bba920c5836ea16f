"""One round of steps: those whose results are there at once, then the others as their jobs end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeVar

from smelt.jobs import run_jobs

if TYPE_CHECKING:
    from smelt.jobs import Done, Job
    from smelt.suites.options import Options

__all__ = ["settled"]


class _Step(Protocol):
    @property
    def job(self) -> Job:
        """What computes it."""


S = TypeVar("S", bound=_Step)


def settled(steps: Iterable[S], there: Callable[[S], bool], options: Options) -> Iterator[tuple[S, Done | None]]:
    """Every step with its finished job; with none where all that it leaves was there before."""
    waiting: dict[str, S] = {}
    for step in steps:
        if there(step):
            yield step, None
        else:
            waiting[step.job.key] = step
    jobs = [step.job for step in waiting.values()]
    for done in run_jobs(jobs, executor=options.executor, workers=options.workers):
        yield waiting[done.job.key], done
