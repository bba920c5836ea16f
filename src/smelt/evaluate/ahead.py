"""Work done ahead: results in order, while threads are busy with what comes next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

__all__ = ["ahead"]

Item = TypeVar("Item")
Done = TypeVar("Done")


def ahead(pool: Executor, work: Callable[[Item], Done], items: Iterable[Item], depth: int) -> Iterator[Done]:
    """`work(item)` for every item, in order; at most `depth` of them are begun before they are asked for."""
    waiting: deque[Future[Done]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(work, item))
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()
