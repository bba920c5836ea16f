"""Spearman's correlation of two lists of numbers, and its interval.

    rho = the correlation of their ranks; equal numbers share the mean of their ranks

The interval is a bootstrap over pairs with a fixed seed: 95 % of the correlations of pairs drawn with replacement. Of
fewer than 20 pairs it is at least Fisher's, atanh(rho) ± z √((1 + rho²/2) / (n − 3)) (Bonett and Wright 2000).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smelt.tasks.intervals import Z95

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

__all__ = ["average_ranks", "spearman", "spearman_interval"]

_DRAWS = 1000
_FEW = 20


def average_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks [n] from 1 on; equal values share the mean of theirs."""
    import numpy as np

    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    ranks: NDArray[np.float64] = (ends - (counts - 1) / 2)[place]
    return ranks


def spearman(one: ArrayLike, other: ArrayLike) -> float | None:
    """Between -1 and 1; nothing where one of the two is the same number all along."""
    import numpy as np

    first, second = (average_ranks(np.asarray(values, dtype=np.float64)) for values in (one, other))
    first, second = first - first.mean(), second - second.mean()
    size = math.sqrt(float(first @ first) * float(second @ second))
    return max(-1.0, min(1.0, float(first @ second) / size)) if size else None


def spearman_interval(one: ArrayLike, other: ArrayLike, *, seed: int = 0) -> tuple[float, float]:
    """95 %; the same numbers give the same interval."""
    import numpy as np

    first, second = (np.asarray(values, dtype=np.float64) for values in (one, other))
    draw, n = np.random.default_rng(seed), len(first)
    drawn = (draw.integers(0, n, n) for _ in range(_DRAWS))
    found = [value for some in drawn if (value := spearman(first[some], second[some])) is not None]
    low, high = map(float, np.percentile(found, [2.5, 97.5])) if found else (-1.0, 1.0)
    if n < _FEW:
        least, most = _fisher(spearman(first, second) or 0.0, n)
        low, high = min(low, least), max(high, most)
    return low, high


def _fisher(rho: float, n: int) -> tuple[float, float]:
    if n <= 3:
        return -1.0, 1.0
    if abs(rho) == 1:
        return rho, rho
    middle, spread = math.atanh(rho), Z95 * math.sqrt((1 + rho * rho / 2) / (n - 3))
    return math.tanh(middle - spread), math.tanh(middle + spread)
