"""Threads: results in order while others are busy with what comes next, pools of one core each, torch's own count."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["map_ahead", "single_core_pool", "torch_threads"]

Item = TypeVar("Item")
Done = TypeVar("Done")


def map_ahead(pool: Executor, work: Callable[[Item], Done], items: Iterable[Item], depth: int) -> Iterator[Done]:
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


@contextmanager
def single_core_pool(threads: int, name: str) -> Iterator[ThreadPoolExecutor]:
    """Threads that compute on their own, one core each: no core waits for another within an operation.

    That is quicker than two cores in one operation, far quicker on a machine that does other things too, and gives
    the same bytes whatever the number of threads.
    """
    import torch

    before = torch.get_num_threads()

    def alone() -> None:
        """One core for this thread. What it sets also holds for threads that compute later: for them it is put back."""
        torch.set_num_threads(1)
        torch.get_num_threads()  # a thread that has not asked yet would still take what the others get
        others = threading.Thread(target=torch.set_num_threads, args=(before,))
        others.start()
        others.join()

    try:
        with ThreadPoolExecutor(threads, name, alone) as pool:
            yield pool
    finally:
        torch.set_num_threads(before)  # the setting of a thread reaches the libraries of the whole process


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Computing with so many cores within, or as before where nothing is said; afterwards as before."""
    import torch

    before = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
