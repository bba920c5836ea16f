"""How a tensor is cut: spans are handed to threads, blocks flow through the pipeline.

Sizes depend on the recipe and the kind of device alone, never on threads or memory, so that sums over blocks
come out the same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from smelt.engine.plan import Item
from smelt.ops.block import Place

__all__ = ["Blocking", "Span"]


@dataclass(frozen=True, slots=True)
class Span:
    """A run of a tensor's elements that one thread works off, block by block."""

    start: int
    stop: int
    step: int

    def blocks(self) -> Iterator[tuple[int, int]]:
        for start in range(self.start, self.stop, self.step):
            yield start, min(start + self.step, self.stop)


@dataclass(frozen=True, slots=True)
class Blocking:
    """Block and span sizes, in elements per model."""

    block: int
    blocks_per_span: int

    @classmethod
    def for_device(cls, kind: str) -> Blocking:
        """On a CPU a block's stack should stay in the caches; on a GPU it should outlast the launch of its kernels."""
        return cls(1 << 22, 1) if kind == "cuda" else cls(1 << 17, 8)

    def spans(self, item: Item) -> list[Span]:
        count = item.info.count
        if item.unit in ("tensor", "matrix"):
            return [Span(0, count, max(count, 1))]
        step = self.block
        if item.unit == "row":
            columns = row_length(item.info.shape)
            step = max(1, self.block // columns) * columns
        width = step * self.blocks_per_span
        return [Span(start, min(start + width, count), step) for start in range(0, count, width)]


def row_length(shape: tuple[int, ...]) -> int:
    """Elements of a row: all that belong to one index of the first axis; a vector is a single row."""
    return math.prod(shape[1:]) if len(shape) > 1 else max(1, math.prod(shape))


def stack_shape(item: Item, place: Place) -> tuple[int, ...]:
    """The shape (without the models) in which a unit sees its block."""
    count = place.stop - place.start
    if item.unit == "element":
        return (count,)
    if item.unit in ("tensor", "matrix"):
        return item.info.shape
    columns = row_length(item.info.shape)
    return (count // columns, columns)
