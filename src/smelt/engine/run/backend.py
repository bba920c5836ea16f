"""What every backend does: it works on the spans of items, and hands on what it has merged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from smelt.engine.plan.plan import Item, Span
from smelt.files.positioned import FilePlace
from smelt.ops.fold import Fold

__all__ = ["Advance", "Backend", "PlaceOf", "Write"]

Write: TypeAlias = Callable[[Item, int, memoryview], None]
"""Takes merged elements of an item from a start on, as bytes in its output dtype."""
PlaceOf: TypeAlias = Callable[[Item, int], FilePlace | None]
"""Where merged elements of an item from a start on are written, where that is a place in a file."""
Advance: TypeAlias = Callable[[int], None]
"""Told how many bytes of input are done."""


class Backend(Protocol):
    """How the spans of an item are worked on, from several threads at once."""

    def is_small(self, item: Item) -> bool:
        """Whether the item is worked on together with its neighbours (`merge_small`)."""

    def spans(self, item: Item) -> list[Span]:
        """How the item is cut: the same whatever the threads and the memory."""

    def can_sample(self, item: Item) -> bool:
        """Whether `fold_span` can show a fold a sample of the item."""

    def fold_span(
        self, item: Item, index: int, fold: Fold, folds: Mapping[int, Fold], span: Span, shows_progress: bool
    ) -> Any:
        """What a span contributes to the fold of the stage at `index`; `folds` are those of the stages before it."""

    def merge_span(self, item: Item, folds: Mapping[int, Fold], span: Span) -> None:
        """Merge a span and write it."""

    def merge_small(self, items: Sequence[Item], folds: Sequence[Mapping[int, Fold]]) -> memoryview:
        """What small items become, merged or copied, one after the other; good until the thread's next call."""

    def copy_span(self, item: Item, span: Span) -> None:
        """Write a span of the base as it is."""
