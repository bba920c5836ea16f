"""How well two rows of numbers agree in their order. Larger is better; a row of equal numbers has none: None.

spearman        the correlation of ranks, equal numbers sharing the mean of their places
kendall         tau-b: (pairs in one order - pairs in opposite order) / sqrt(pairs untied in one * untied in other)
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["kendall", "spearman"]


def spearman(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """Between -1 and 1."""
    ranks = [_ranks(values) for values in (one, other)]
    first, second = (values - values.mean() for values in ranks)
    both = math.sqrt(float(np.sum(first**2)) * float(np.sum(second**2)))
    return float(first @ second) / both if both else None


def kendall(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """Between -1 and 1."""
    first, second = (np.sign(np.subtract.outer(values, values)) for values in (one, other))
    both = math.sqrt(float(np.sum(first**2)) * float(np.sum(second**2)))
    return float(np.sum(first * second)) / both if both else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places from the lowest, 0 first; equal values share the mean of theirs."""
    below = np.less.outer(values, values).sum(axis=0)
    equal = np.equal.outer(values, values).sum(axis=0)
    places: NDArray[np.float64] = below + (equal - 1) / 2
    return places
