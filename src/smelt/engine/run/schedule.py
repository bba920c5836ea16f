"""Running many small workflows on a few threads.

A workflow is a generator: it yields a batch of independent tasks and receives their joined result, then yields the
next batch, until it ends. Batches of different workflows run side by side. Results are joined in the order of the
tasks as they come in, so that they never depend on which thread ran what and are never all held at once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["OrderedJoin", "TaskBatch", "Workflow", "run_here", "run_workflows"]

Task: TypeAlias = Callable[[], Any]


def _forget(left: Any, right: Any) -> None:
    """Join the results of tasks that have none."""


@dataclass(frozen=True)
class TaskBatch:
    """Tasks that may run in any order, and how their results become one."""

    tasks: Sequence[Task]
    join: Callable[[Any, Any], Any] = _forget


Workflow: TypeAlias = Generator[TaskBatch, Any, Any]


class OrderedJoin:
    """Joins numbered parts in their order, holding only those that came too early."""

    def __init__(self, join: Callable[[Any, Any], Any]):
        self._join, self._next = join, 0
        self._early: dict[int, Any] = {}
        self.total: Any = None

    def add(self, number: int, part: Any) -> None:
        self._early[number] = part
        while self._next in self._early:
            part = self._early.pop(self._next)
            self.total = self._join(self.total, part) if self._next else part
            self._next += 1


@dataclass(eq=False)
class _Running:
    workflow: Workflow
    cost: int
    number: int
    results: OrderedJoin = field(default_factory=lambda: OrderedJoin(_forget))
    left: int = 0


def run_workflows(
    workflows: Iterable[tuple[Workflow, int]],
    pool: ThreadPoolExecutor,
    *,
    budget: int,
    window: int,
    finished: Callable[[int, Any], None] = lambda number, result: None,
) -> None:
    """Run every (workflow, memory cost) to its end, at most `window` at once and within `budget` bytes.

    `finished(number, result)` is called in this thread, in the order in which workflows end.
    """
    waiting = enumerate(workflows)
    upcoming = next(waiting, None)
    futures: dict[Future[Any], tuple[_Running, int]] = {}
    spent = active = 0
    try:
        while upcoming is not None or futures:
            while upcoming is not None and active < window and (active == 0 or spent + upcoming[1][1] <= budget):
                number, (workflow, cost) = upcoming
                running = _Running(workflow, cost, number)
                spent, active = spent + cost, active + 1
                if not _advance(running, None, pool, futures, finished):
                    spent, active = spent - cost, active - 1
                upcoming = next(waiting, None)
            done, _ = wait(futures, return_when=FIRST_COMPLETED) if futures else (set(), None)
            for future in done:
                running, place = futures.pop(future)
                running.results.add(place, future.result())
                running.left -= 1
                if running.left == 0 and not _advance(running, running.results.total, pool, futures, finished):
                    spent, active = spent - running.cost, active - 1
    except BaseException:
        for future in futures:
            future.cancel()
        wait(futures)
        raise


def run_here(workflow: Workflow) -> Any:
    """Run a workflow to its end in this thread, its tasks one after the other; what it returns."""
    result = None
    try:
        while True:
            batch = workflow.send(result)
            result = None
            for place, task in enumerate(batch.tasks):
                part = task()
                result = batch.join(result, part) if place else part
    except StopIteration as end:
        return end.value


def _advance(
    running: _Running,
    result: Any,
    pool: ThreadPoolExecutor,
    futures: dict[Future[Any], tuple[_Running, int]],
    finished: Callable[[int, Any], None],
) -> bool:
    """Hand a workflow its result and submit its next batch; False at its end. A batch of nothing is done at once."""
    try:
        batch = running.workflow.send(result)
        while not batch.tasks:
            batch = running.workflow.send(None)
    except StopIteration as end:
        finished(running.number, end.value)
        return False
    running.results = OrderedJoin(batch.join)
    running.left = len(batch.tasks)
    for place, task in enumerate(batch.tasks):
        futures[pool.submit(task)] = (running, place)
    return True
