"""A fixed part of a split: the same pictures for every model, machine and day, classes in the split's proportions.

Within its class every picture has a turn t, by a hash of its place (task, split, index). With n pictures in the class
and a hash u of the class between 0 and 1, its position is (t + u) / n; a part is the pictures of the lowest positions.
So each picture is as likely to be in it as any other, accuracy on a part estimates accuracy on the whole, rare
classes are not favoured, and a smaller part lies within a larger one.
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
    ranks = np.array([_hash(place, f"picture {index}") for index in range(len(labels))])
    order = np.lexsort((ranks, labels))  # class by class, each by rank
    classes, starts, sizes = np.unique(labels[order], return_index=True, return_counts=True)
    turns = np.arange(len(order)) - np.repeat(starts, sizes)
    offsets = np.repeat([_hash(place, f"class {number}") for number in classes], sizes)
    positions = (turns + offsets) / np.repeat(sizes, sizes)
    chosen = order[np.lexsort((ranks[order], positions))][:limit]
    return np.sort(chosen).astype(np.int64)


def _hash(place: str, what: str) -> float:
    """A number from 0 to 1 that is the same for all time."""
    digest = hashlib.blake2b(f"{place}\0{what}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") / 2**64
