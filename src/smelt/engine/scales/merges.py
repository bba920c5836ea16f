"""Merges over one pool that share their changes: of recipes that differ in the scale alone, only the first is merged.

In: an open pool and recipes. Out: state dicts in the output's dtypes. Changes are kept in memory within a bound, the
latest always; one that is too large for the machine lies in a file. Scale curves, tuning and suites all merge here.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.engine.merge import Options, merge_to_memory, planned
from smelt.engine.scales.linear import at_scale, is_linear

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.engine.scales.change import Change
    from smelt.models.pool import ModelPool
    from smelt.recipe.schema import Recipe

__all__ = ["Scaled"]

KEPT = 3 << 29
"""Bytes of merged changes that are kept."""
LARGEST = 8 << 30
"""Bytes of a change that is kept in memory, or a quarter of the machine's where that is less."""


class Scaled:
    """The merges of one pool."""

    def __init__(
        self,
        pool: ModelPool,
        relative_to: Path | None = None,
        options: Options | None = None,
    ):
        self._pool, self._relative_to, self._options = pool, relative_to, options or Options()
        self._changes: OrderedDict[str, Change] = OrderedDict()
        self.merged = 0
        """How often models were merged; a scale of a change that is there does not count."""

    def at(self, recipe: Recipe, *, once: bool = False) -> dict[str, Tensor]:
        """The merged model of a recipe; with `once` nothing is kept for other scales of it."""
        with planned(recipe, relative_to=self._relative_to, pool=self._pool) as ready:
            if once or not is_linear(recipe):
                self.merged += 1
                return merge_to_memory(ready, self._options)
            from smelt.engine.scales.change import Change

            place = at_scale(recipe, 1.0).hash
            change = self._changes.pop(place, None)
            if change is None:
                self.merged += 1
                change = Change.of(ready.plan, self._options, memory=_room())
            self._keep(place, change)
            return change.at(ready.plan, self._options)

    def _keep(self, place: str, change: Change) -> None:
        """The latest, and of those before it as many as memory holds."""
        self._changes[place] = change
        while len(self._changes) > 1 and sum(one.nbytes for one in self._changes.values()) > KEPT:
            self._changes.popitem(last=False)


def _room() -> int:
    """Bytes that one change may have in memory."""
    if not hasattr(os, "sysconf"):
        return LARGEST
    return min(LARGEST, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4)
