"""Sums of x^T x, strip by strip: some rows of the matrix, from the diagonal to the right; the rest is their mirror
image.

A strip is one thread's work and lies in its cache while the rows of all chunks at hand go into it: a product in
float32 for each chunk, added in float64, in the order of the chunks. So any number of threads can share one chunk, and
gives the same bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.measurement.squared_gradients import GradientScratch

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Rows", "StripSums", "strips"]

Rows = Mapping[str, "Sequence[Tensor]"]
"""By the layer's key, its inputs [rows, width] in float32, one tensor for each time that it was called."""

_LEAST, _MOST = 96, 192
"""Rows of a strip. Where it crosses the diagonal half is computed in vain; of thinner ones the products are slower."""


@dataclass(frozen=True)
class _Strip:
    key: str
    start: int
    stop: int


def strips(width: int) -> list[tuple[int, int]]:
    """Where the strips of a square matrix begin and end."""
    height = max(_LEAST, min(_MOST, width // 8))
    return [(start, min(start + height, width)) for start in range(0, width, height)]


class StripSums:
    """Sums that grow by chunks. `check(key, diagonal)` sees the diagonal of every chunk's sums.

    No element is larger than the largest of the diagonal, and one that is no number has one there in its row.
    """

    def __init__(self, pool: Executor, check: Callable[[str, Tensor], None]):
        self._pool, self._check = pool, check
        self._totals: dict[str, Tensor] = {}
        self._own = threading.local()

    def add(self, chunks: Sequence[Rows]) -> None:
        """Add what several chunks give, in their order."""
        import torch

        fresh = set()
        for key, (rows, *_) in ((key, rows) for chunk in chunks for key, rows in chunk.items()):
            if key not in self._totals:
                width = rows.shape[1]
                self._totals[key] = torch.empty(width, width, dtype=torch.float64)
                fresh.add(key)

        def work(strip: _Strip) -> None:
            total = self._totals[strip.key][strip.start : strip.stop, strip.start :]
            empty = strip.key in fresh
            for chunk in chunks:
                if strip.key in chunk:
                    found = self._product(strip, chunk[strip.key])
                    self._check(strip.key, found.diagonal())
                    (total.copy_ if empty else total.add_)(found)
                    empty = False

        self._each(work, {key for chunk in chunks for key in chunk})

    def whole(self) -> dict[str, Tensor]:
        """The symmetric matrices, in float64 and main memory. Nothing can be added after this."""

        def work(strip: _Strip) -> None:
            total = self._totals[strip.key]
            corner = total[strip.start : strip.stop, strip.start : strip.stop]
            corner.copy_(corner.triu() + corner.triu(1).mT)
            total[strip.stop :, strip.start : strip.stop] = total[strip.start : strip.stop, strip.stop :].mT

        self._each(work, self._totals)
        return self._totals

    def _each(self, work: Callable[[_Strip], None], keys: Iterable[str]) -> None:
        import torch

        def quiet(strip: _Strip) -> None:
            with torch.no_grad():
                work(strip)

        widths = {key: len(self._totals[key]) for key in keys}
        wide_first = sorted(widths, key=lambda key: (-widths[key], key))
        places = [_Strip(key, *place) for key in wide_first for place in strips(widths[key])]
        list(self._pool.map(quiet, places))

    def _product(self, strip: _Strip, calls: Sequence[Tensor]) -> Tensor:
        import torch

        if not hasattr(self._own, "scratch"):
            self._own.scratch = GradientScratch()
        first, *more = calls
        shape = strip.stop - strip.start, first.shape[1] - strip.start
        out: Tensor = self._own.scratch.take("product", first, *shape)
        torch.mm(first[:, strip.start : strip.stop].mT, first[:, strip.start :], out=out)
        for rows in more:
            out.addmm_(rows[:, strip.start : strip.stop].mT, rows[:, strip.start :])
        return out.cpu()
