"""Random subsets of models: what a method does on average where nothing chooses for it.

The subsets follow from the names, the size, the count and the seed, and from nothing else, so that every method gets
the same ones. No subset comes twice.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from smelt.errors import RecipeError

__all__ = ["Spread", "random_subsets", "spread"]


@dataclass(frozen=True)
class Spread:
    """How values lie: `sd` is the sample's standard deviation, `standard_error` that of the mean, SD / √n."""

    n: int
    mean: float
    sd: float | None
    """With n - 1 below; none for one value."""
    lowest: float
    highest: float

    @property
    def standard_error(self) -> float | None:
        return None if self.sd is None else self.sd / math.sqrt(self.n)


def random_subsets(names: Sequence[str], size: int, count: int, seed: int = 0) -> list[tuple[str, ...]]:
    """`count` different subsets of `size`, each in the order of `names`, the same for the same `seed`."""
    if not 1 <= size <= len(names):
        raise RecipeError(f"size: a subset of {len(names)} models has 1 to {len(names)} of them; got {size}")
    possible = math.comb(len(names), size)
    if not 1 <= count <= possible:
        raise RecipeError(f"count: there are {possible} subsets of {size} among {len(names)} models; got {count}")
    draw, found = random.Random(f"{seed} {size} {count}"), dict[tuple[str, ...], None]()
    while len(found) < count:
        places = sorted(draw.sample(range(len(names)), size))
        found[tuple(names[place] for place in places)] = None
    return list(found)


def spread(values: Sequence[float]) -> Spread:
    """The mean of `values`, and how far they lie from it and from each other."""
    if not values:
        raise RecipeError("no values, no mean")
    mean = math.fsum(values) / len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    sd = math.sqrt(squares / (len(values) - 1)) if len(values) > 1 else None
    return Spread(len(values), mean, sd, min(values), max(values))
