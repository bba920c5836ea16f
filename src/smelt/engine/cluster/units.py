"""Units: runs of neighbouring tensors, or pieces of a large one, of about as many bytes each.

They follow from the plan alone, so that it is the same work whoever does it, on however many machines. A tensor is cut
only between spans, and only where its stages need no number about all of it (a fold over the tensor): such a tensor
goes to one worker, who finds that number once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from smelt.engine.plan.plan import Item, Span

__all__ = ["Piece", "cut", "looks_at_all", "unit_size"]

_LEAST, _MOST, _UNITS = 32 << 20, 1 << 30, 512


@dataclass(frozen=True, slots=True)
class Piece:
    """Spans `first` to `stop` of the item with this number."""

    item: int
    first: int
    stop: int
    bytes: int
    """Of input."""
    is_all: bool

    def words(self) -> list[int]:
        """As jobs carry it."""
        return [self.item, self.first, self.stop]


def unit_size(bytes_in: int) -> int:
    """Bytes of input of a unit: enough to outlast what a job costs, and few enough that all workers end together."""
    return max(_LEAST, min(_MOST, bytes_in // _UNITS))


def cut(items: Sequence[Item], spans_of: Callable[[Item], list[Span]], size: int) -> list[list[Piece]]:
    """The items in their order, as units of about `size` bytes of input."""
    units: list[list[Piece]] = []
    room = 0
    for number, item in enumerate(items):
        for piece in _pieces(number, item, spans_of(item), size):
            if not units or room < piece.bytes:
                units.append([])
                room = size
            units[-1].append(piece)
            room -= piece.bytes
    return units


def _pieces(number: int, item: Item, spans: list[Span], size: int) -> Iterator[Piece]:
    if item.bytes_in <= size or len(spans) < 2 or looks_at_all(item):
        yield Piece(number, 0, len(spans), item.bytes_in, is_all=True)
        return
    each = max(1, size * len(spans) // item.bytes_in)
    for first in range(0, len(spans), each):
        stop = min(first + each, len(spans))
        elements = spans[stop - 1].stop - spans[first].start
        yield Piece(number, first, stop, item.bytes_of(elements), is_all=False)


def looks_at_all(item: Item) -> bool:
    """Whether some stage has a fold over the tensor."""
    folds = (run.stage.fold_for(run.parameters) for run in item.stages)
    return any(fold is not None and fold.scope == "tensor" for fold in folds)
