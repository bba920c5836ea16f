"""Several requests under way at a time; the first that fails ends the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

__all__ = ["REQUESTS", "at_once"]

Given = TypeVar("Given")
Found = TypeVar("Found")

REQUESTS = 8
"""Under way at a time, unless `threads` says otherwise: servers answer several together."""


def at_once(ask: Callable[[Given], Found], several: Iterable[Given], count: int) -> list[Found]:
    """What `ask` gives for each, in their order."""
    with ThreadPoolExecutor(count, thread_name_prefix="served") as pool:
        asked = [pool.submit(ask, one) for one in several]
        try:
            wait(asked, return_when=FIRST_EXCEPTION)
            failed = next((one for one in asked if one.done() and one.exception() is not None), None)
            if failed is not None:
                failed.result()
            return [one.result() for one in asked]
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
