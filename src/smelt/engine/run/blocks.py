"""How a tensor is cut: spans are handed to threads, blocks flow through the pipeline.

Sizes depend on the recipe and the kind of device alone, never on threads or memory, so that sums over blocks
come out the same to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from smelt.engine.plan.plan import Item
from smelt.ops.block import Place

__all__ = ["Blocking", "Span", "place_of", "row_length", "stack_shape"]


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
    """How large blocks and spans are: `stack` is the number of elements that all models of a block have together."""

    stack: int
    blocks_per_span: int

    @classmethod
    def for_device(cls, kind: str) -> Blocking:
        """Large enough to outlast the work around each operation (launches on a GPU; on a CPU the hand-over of the
        interpreter lock between threads), small enough for the caches. Both measured: docs/log.md.
        """
        return cls(1 << 24, 1) if kind == "cuda" else cls(3 << 19, 4)

    def block(self, item: Item) -> int:
        """Elements per model of a block: a power of two, unless it is tiny."""
        share = self.stack // max(1, len(item.all_taps) + len(item.statistics))
        return 1 << (share.bit_length() - 1) if share >= 1024 else max(1, share)

    def spans(self, item: Item) -> list[Span]:
        count = item.info.count
        if item.unit in ("tensor", "matrix"):
            return [Span(0, count, count)] if count else []
        step = self.block(item)
        if item.unit == "row":
            columns = row_length(item.info.shape)
            step = max(1, step // columns) * columns
        width = step * self.blocks_per_span
        return [Span(start, min(start + width, count), step) for start in range(0, count, width)]


def row_length(shape: tuple[int, ...]) -> int:
    """Elements of a row: all that belong to one index of the first axis; a vector is a single row."""
    return math.prod(shape[1:]) if len(shape) > 1 else max(1, math.prod(shape))


def place_of(item: Item, start: int, stop: int) -> Place:
    """Elements `start` to `stop` of an item, as stages know them."""
    names = tuple(tap.model for tap in item.taps)
    turned = item.matrices.shape if item.whole is None and item.matrices and item.matrices.transposed else None
    return Place(
        item.key, item.order, item.info.shape, item.first + start, item.first + stop, item.depth, names, turned
    )


def stack_shape(item: Item, place: Place) -> tuple[int, ...]:
    """The shape (without the models) in which a unit sees its block."""
    count = place.stop - place.start
    if item.unit == "element":
        return (count,)
    if item.unit in ("tensor", "matrix"):
        return item.info.shape
    columns = row_length(item.info.shape)
    return (count // columns, columns)
