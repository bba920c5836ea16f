"""What workers found of a fold, joined as one process joins it: the spans of a tensor, then the tensors, in order.

Sums round, so the order of additions is part of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from smelt.engine.cluster.piece_executor import FoldPart
from smelt.engine.run.executor import OrderedJoin
from smelt.ops.fold import Fold

__all__ = ["FoldTotal"]


class FoldTotal:
    """The joined parts of one pass; of those that came too early nothing is joined yet."""

    def __init__(self, fold: Fold):
        self._fold = fold
        self._parts = OrderedJoin(lambda left, right: self._shortened([*left, *right]))

    def add(self, number: int, parts: Sequence[FoldPart]) -> None:
        """What the job with this number found."""
        self._parts.add(number, parts)

    @property
    def value(self) -> Any:
        return reduce(self._fold.join, [part for _, part in self._shortened(self._parts.total)])

    def _shortened(self, parts: Sequence[FoldPart]) -> list[FoldPart]:
        """All finished tensors as one part, and the last one, of which more may come."""
        kept: list[FoldPart] = []
        for begins, part in parts:
            if not begins and kept:
                kept[-1] = True, self._fold.join(kept[-1][1], part)
                continue
            if len(kept) == 2:
                kept = [(True, self._fold.join(kept[0][1], kept[1][1]))]
            kept.append((True, part))
        return kept
