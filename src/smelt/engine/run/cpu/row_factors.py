"""Factors of rows, each found from its own row: one pass of the machine over a block before the pass that merges it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from smelt.engine.run.cpu.program import Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.engine.run.cpu.program import Program
    from smelt.ops.block import Place

__all__ = ["EachRow"]


class EachRow:
    """What the rows of a span are multiplied with, filled in block by block."""

    def __init__(
        self,
        program: Program,
        rows: Sequence[int],
        formats: Sequence[str],
        place: Place,
        factors_of: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    ):
        count = (place.stop - place.start) // program.width
        pairs = [(i, j) for i in range(len(rows)) for j in range(i + 1)]
        self._products = [(i, j, program.row_dot(rows[i], rows[j], count)) for i, j in pairs]
        self._width, self._factors_of, self._done = program.width, factors_of, 0
        self._run = Run(program, formats)
        models = len(rows)
        self._grams = np.empty((count, models, models))
        self.factors = [np.zeros(count, np.float32) for _ in range(factors_of(np.ones((1, models, models))).shape[1])]
        """One array for each factor that a row has; known of the rows that were fed."""

    def feed(self, taps: Sequence[NDArray[np.uint8]], count: int) -> None:
        """Find the factors of the next rows. What is not finite is told of by the pass that merges them."""
        if self._run.feed(taps, count):
            return
        now = slice(self._done, self._done + count // self._width)
        for i, j, product in self._products:
            self._grams[now, i, j] = self._grams[now, j, i] = product[now]
        found = self._factors_of(self._grams[now])
        for factors, column in zip(self.factors, found.T, strict=True):
            factors[now] = column
        self._done = now.stop
