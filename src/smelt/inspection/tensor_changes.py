"""How far the tensors of two models differ, streamed piece by piece. Sums in float64.

    largest = max |b - a|      relative = |b - a| / |a|      cosine = <a, b> / (|a| |b|)

Equal numbers are equal, NaN in the same place among them. Where one number is infinite or NaN and the other is not, it
counts in `odd` and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.formats import dtype as dtypes
from smelt.formats.source import Source
from smelt.system.process import usable_cores
from smelt.system.progress import Progress

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Sums", "TensorChange", "tensor_changes"]

_PIECE = 1 << 18
"""Numbers of a tensor that a thread works on at once: with all that is made of them, about 10 MB."""
_MOST_THREADS = 4
_AT_ONCE = 256
"""Pieces that are handed to the threads together; a large model has hundreds of thousands."""


@dataclass(frozen=True)
class Sums:
    """What is added up over the numbers of two tensors, or of several."""

    differing: int = 0
    largest: float = 0.0
    change: float = 0.0
    """Sum of (b - a)²."""
    first: float = 0.0
    """Sum of a²."""
    second: float = 0.0
    product: float = 0.0
    odd: int = 0

    def __add__(self, other: Sums) -> Sums:
        return Sums(
            self.differing + other.differing,
            max(self.largest, other.largest),
            self.change + other.change,
            self.first + other.first,
            self.second + other.second,
            self.product + other.product,
            self.odd + other.odd,
        )

    @property
    def relative(self) -> float:
        """|b - a| / |a|; infinite where a is zero and b is not."""
        if not self.change:
            return 0.0
        return math.sqrt(self.change / self.first) if self.first else math.inf

    @property
    def cosine(self) -> float:
        """Between a and b; not a number where one of them is zero."""
        if not self.change:
            return 1.0
        lengths = math.sqrt(self.first) * math.sqrt(self.second)
        return max(-1.0, min(1.0, self.product / lengths)) if lengths else math.nan


@dataclass(frozen=True)
class TensorChange:
    """One tensor that both models have, in the same shape."""

    name: str
    parameters: int
    sums: Sums

    @property
    def same(self) -> bool:
        return not self.sums.differing


def tensor_changes(first: Source, second: Source, keys: Sequence[str], *, quiet: bool = True) -> list[TensorChange]:
    """Compare tensors of two models; all are of the same shape in both."""
    pieces = [
        (key, start, min(_PIECE, first.tensors[key].count - start))
        for key in keys
        for start in range(0, first.tensors[key].count, _PIECE)
    ]
    found = dict.fromkeys(keys, Sums())
    with Progress(quiet) as progress, ThreadPoolExecutor(min(usable_cores(), _MOST_THREADS)) as workers:
        size = {key: sum(dtypes.item_size(one.tensors[key].dtype) for one in (first, second)) for key in keys}
        progress.begin("comparing", sum(count * size[key] for key, _, count in pieces))
        for (key, _, count), sums in zip(pieces, _in_order(workers, first, second, pieces), strict=True):
            found[key] += sums  # in the order of the pieces, so that the sums are the same every time
            progress.advance(count * size[key])
    return [TensorChange(key, first.tensors[key].count, sums) for key, sums in found.items()]


def _in_order(
    workers: ThreadPoolExecutor, first: Source, second: Source, pieces: Sequence[tuple[str, int, int]]
) -> Iterator[Sums]:
    for at in range(0, len(pieces), _AT_ONCE):
        yield from workers.map(lambda piece: _sums(first, second, *piece), pieces[at : at + _AT_ONCE])


def _sums(first: Source, second: Source, key: str, start: int, count: int) -> Sums:
    import torch

    a, b = (_read(source, key, start, count) for source in (first, second))
    if torch.equal(a, b):
        length = _dot(a, a)
        return Sums(first=length, second=length, product=length)
    usual = a.isfinite() & b.isfinite()
    odd = 0
    if not bool(usual.all()):
        odd = int((~usual & (a != b) & ~(a.isnan() & b.isnan())).sum())
        a, b = a.where(usual, 0.0), b.where(usual, 0.0)
    change = b - a
    return Sums(
        int(change.count_nonzero()) + odd,
        float(change.abs().max()),
        _dot(change, change),
        _dot(a, a),
        _dot(b, b),
        _dot(a, b),
        odd,
    )


def _read(source: Source, key: str, start: int, count: int) -> Tensor:
    """In float64, in which every number of 16 or 32 bits is exact, and every whole one up to 2^53."""
    import torch

    values = torch.empty(count, dtype=torch.float64)
    if source.tensors[key].dtype in dtypes.FLOATS - {"F64"}:
        narrow = torch.empty(count, dtype=torch.float32)  # which all sources read without loss and quickest
        source.read(key, start, narrow)
        return values.copy_(narrow)
    source.read(key, start, values)
    return values


def _dot(a: Tensor, b: Tensor) -> float:
    return float(a.dot(b))
