"""A fixed part of a split: the same pictures for every model, machine and day.

Every picture has a rank by a hash of its place (task, split, index). Classes take turns, each giving its pictures
in that order, so classes are as balanced as their sizes allow and a smaller part lies within a larger one.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from smelt.errors import RecipeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["fixed_subset"]


def fixed_subset(labels: NDArray[np.int64], limit: int | None, place: str) -> NDArray[np.int64]:
    """Indices of at most `limit` pictures, ascending; `place` is the task and split, e.g. `photos/test`."""
    import numpy as np

    if limit is not None and limit < 1:
        raise RecipeError(f"limit is a number of pictures, at least 1; got {limit}")
    if limit is None or limit >= len(labels):
        return np.arange(len(labels), dtype=np.int64)
    ranks = np.array([_rank(place, index) for index in range(len(labels))], dtype=np.uint64)
    order = np.lexsort((ranks, labels))  # class by class, each by rank
    starts = np.searchsorted(labels[order], labels[order])
    turns = np.arange(len(order)) - starts
    chosen = order[np.lexsort((ranks[order], turns))][:limit]
    return np.sort(chosen).astype(np.int64)


def _rank(place: str, index: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{place}\0{index}".encode(), digest_size=8).digest(), "little")
