"""Running many small programs on a few threads.

A program is a generator: it yields a batch of independent tasks and receives their results in order, then
yields the next batch, until it ends. Batches of different programs run side by side; results never depend on
which thread ran what.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = ["Program", "run_programs"]

Task: TypeAlias = Callable[[], Any]
Program: TypeAlias = Generator[list[Task], list[Any], Any]


@dataclass(eq=False)
class _Running:
    program: Program
    cost: int
    number: int
    results: list[Any] = field(default_factory=list)
    left: int = 0


def run_programs(
    programs: Iterable[tuple[Program, int]],
    pool: ThreadPoolExecutor,
    *,
    budget: int,
    window: int,
    finished: Callable[[int, Any], None] = lambda number, result: None,
) -> None:
    """Run every (program, memory cost) to its end, at most `window` at once and within `budget` bytes.

    `finished(number, result)` is called in this thread, in the order in which programs end.
    """
    waiting = enumerate(programs)
    upcoming = next(waiting, None)
    futures: dict[Future[Any], tuple[_Running, int]] = {}
    spent = active = 0
    try:
        while upcoming is not None or futures:
            while upcoming is not None and active < window and (active == 0 or spent + upcoming[1][1] <= budget):
                number, (program, cost) = upcoming
                running = _Running(program, cost, number)
                spent, active = spent + cost, active + 1
                if not _advance(running, None, pool, futures, finished):
                    spent, active = spent - cost, active - 1
                upcoming = next(waiting, None)
            done, _ = wait(futures, return_when=FIRST_COMPLETED) if futures else (set(), None)
            for future in done:
                running, place = futures.pop(future)
                running.results[place] = future.result()
                running.left -= 1
                if running.left == 0 and not _advance(running, running.results, pool, futures, finished):
                    spent, active = spent - running.cost, active - 1
    except BaseException:
        for future in futures:
            future.cancel()
        wait(futures)
        raise


def _advance(
    running: _Running,
    results: list[Any] | None,
    pool: ThreadPoolExecutor,
    futures: dict[Future[Any], tuple[_Running, int]],
    finished: Callable[[int, Any], None],
) -> bool:
    """Hand a program its results and submit its next batch; False at its end."""
    try:
        tasks = running.program.send(results)  # type: ignore[arg-type]
    except StopIteration as end:
        finished(running.number, end.value)
        return False
    running.results = [None] * len(tasks)
    running.left = len(tasks)
    for place, task in enumerate(tasks):
        futures[pool.submit(task)] = (running, place)
    return True
