"""Memory for reading codes: buffers of each thread's own, and the few matrices that are read piece by piece."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Workspace"]

_KEPT = 4
"""Things that are kept. A merge walks from tensor to tensor, each thread in its own."""
T = TypeVar("T")


class Workspace:
    """One for each open model."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._own = threading.local()
        self._lock, self._most = threading.Lock(), kept
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    def buffer(self, name: str, size: int) -> NDArray[np.uint8]:
        """Bytes that this thread may use until it asks for the same name again."""
        found: NDArray[np.uint8] | None = getattr(self._own, name, None)
        if found is None or len(found) < size:
            found = np.empty(size, np.uint8)
            setattr(self._own, name, found)
        return found[:size]

    def kept(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, made once while it is among the last that were asked for; other threads wait for it."""
        with self._lock:
            found = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)
        with found.lock:
            if found.made is None:
                found.made = make()
            made: T = found.made
            return made


class _Kept:
    """A thing that is kept, or being made."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.made: Any = None
