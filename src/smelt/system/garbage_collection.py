"""Python's collector of cycles, kept from going through a plan of many tensors again and again: a quarter of the time.

What a plan is made of has no cycles, and lives until the run ends.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["gc_frozen", "gc_paused"]


@contextmanager
def gc_paused() -> Iterator[None]:
    """Collect no cycles in here: for what makes many objects that stay, and does not take long."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Do not look at what there is already; new cycles are collected."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
