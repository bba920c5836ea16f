"""Memory for what passes hold: every pass of a thread gets the same, so that few of its pages are ever touched.

A pass needs room for all that might lie between two magnitudes, and fills very little of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Slab"]


class Slab:
    """Arrays that are handed out in turn, and from the first on again after `begin`. Belongs to one thread."""

    def __init__(self, least: int):
        """`least`: of how many numbers each is, or more where more are asked for."""
        self._least, self._next = least, 0
        self._rooms: list[NDArray[np.uint32]] = []

    def begin(self) -> None:
        """What was handed out is needed no more."""
        self._next = 0

    def take(self, size: int) -> NDArray[np.uint32]:
        number, self._next = self._next, self._next + 1
        if number == len(self._rooms):
            self._rooms.append(np.empty(max(size, self._least), np.uint32))
        elif len(self._rooms[number]) < size:
            self._rooms[number] = np.empty(size, np.uint32)
        return self._rooms[number][:size]
