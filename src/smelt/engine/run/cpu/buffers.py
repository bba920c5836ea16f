"""A thread's memory for blocks, samples and what passes hold, used again and again: a fresh page costs more than the
arithmetic on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smelt.engine.run.cpu.machine import library
from smelt.formats import dtype as dtypes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.formats.source import Source

__all__ = ["SamplePieces", "Scratch"]


class Scratch:
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


_TURN = (5**0.5 - 1) / 2
"""Multiples of the golden ratio lie evenly between whole numbers."""


@dataclass(frozen=True)
class SamplePieces:
    """`many` pieces of `length` elements, and a `last` shorter one where the block does not come out even."""

    start: int
    stride: int
    length: int
    many: int
    last: int

    @classmethod
    def of(cls, start: int, stop: int, share: float, longest: int, order: int = 0) -> SamplePieces:
        """Those of a block, which make a share of it.

        The last piece is rounded up or down by the order of the tensor, so that of many small tensors together the
        share is shown, and not one element of each.
        """
        stride = int(longest / share)
        many, rest = divmod(stop - start, stride)
        return cls(start, stride, max(1, round(stride * share)), many, int(rest * share + (order + 0.5) * _TURN % 1))

    @property
    def count(self) -> int:
        """Elements of all."""
        return self.many * self.length + self.last

    def read(self, source: Source, key: str, out: NDArray[np.uint8]) -> None:
        """Fill `out` with them, as they are stored."""
        size, place, machine = dtypes.item_size(source.tensors[key].dtype), source.stored_at(key), library()
        if place is not None and machine is not None:
            file, begin = place
            steps = (begin + self.start * size, self.stride * size, self.length * size, self.many, self.last * size)
            if machine.smelt_read_pieces(file, *steps, out.ctypes.data) == 0:
                return
        done = 0
        for number in range(self.many + (self.last > 0)):
            length = self.length if number < self.many else self.last
            source.read_bytes(key, self.start + number * self.stride, out.data[done : done + length * size])
            done += length * size
