"""Executors: where jobs run. A name, or an object with the members of `Executor`, so that anyone can add one."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, runtime_checkable

from smelt.errors import RecipeError, unknown
from smelt.jobs.job import Job
from smelt.jobs.worker import perform

__all__ = ["EXECUTORS", "DroppingExecutor", "Executor", "InlineExecutor", "WorkerAnswer", "find_executor"]

EXECUTORS = {
    "inline": "in this process, one after the other",
    "local": "in worker processes of this machine",
    "ray": "on a Ray cluster: `ray` starts one here, `ray:ADDRESS` joins one",
    "slurm": "as Slurm jobs: `slurm` or `slurm:partition=gpu,timeout_min=60`",
}
"""The executors that have a name."""


class WorkerAnswer(NamedTuple):
    """What came of a job: the answer of `perform`, or why its worker is no more."""

    ticket: int
    answer: dict[str, Any] | None
    death: str = ""


@runtime_checkable
class Executor(Protocol):
    """Takes at most `workers` jobs at a time and hands back each when it is finished."""

    @property
    def workers(self) -> int:
        """How many jobs run at once."""

    def start(self) -> None:
        """Get ready; called once, before the first job."""

    def submit(self, ticket: int, job: Job) -> None:
        """Begin a job (`perform(job.call, job.arguments, is_trusted())` there, with what is trusted here).

        A ticket comes again where a worker died.
        """

    def wait(self) -> WorkerAnswer | None:
        """The next job that is finished; there is one under way. Nothing, where it is to be asked again."""

    def stop(self) -> None:
        """End everything at once, finished or not."""


@runtime_checkable
class DroppingExecutor(Executor, Protocol):
    """One that jobs can be taken back from, so that late ones may be given to a second worker as well."""

    def wait(self, seconds: float | None = None) -> WorkerAnswer | None:
        """The next job that is finished; nothing, where there is none after so many seconds."""

    def drop(self, ticket: int) -> None:
        """End a job that nobody waits for any more."""


class InlineExecutor:
    """Jobs in this process, one after the other. A crash is the caller's own."""

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


def find_executor(executor: str | Executor, workers: int = 1) -> Executor:
    """The executor of a name, as `ray` or `ray:ADDRESS`; an object is returned as it is."""
    if not isinstance(executor, str):
        return executor
    if workers < 1:
        raise RecipeError(f"workers: at least 1, got {workers}")
    name, _, words = executor.partition(":")
    if name not in EXECUTORS:
        raise RecipeError(unknown("executor", name, EXECUTORS))
    if words and name in ("inline", "local"):
        raise RecipeError(f"the executor {name!r} takes no words, got {executor!r}")
    if name == "inline":
        return InlineExecutor()
    if name == "local":
        from smelt.jobs.local import LocalExecutor

        return LocalExecutor(workers)
    if name == "ray":
        from smelt.jobs.ray import RayExecutor

        return RayExecutor(workers, address=words or None)
    from smelt.jobs.slurm import SlurmExecutor, read_words

    return SlurmExecutor(workers, **read_words(words))
