"""Rank correlations: whether the models that were said to be good are.

    Spearman: the correlation of ranks, equal numbers sharing the mean of their places
    Kendall (tau-b): (pairs in one order - pairs in opposite order) / sqrt(pairs untied in one * pairs untied in other)

A row of equal numbers has no order, so that nothing correlates with it: None.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["kendall", "spearman"]


def spearman(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """Between -1 and 1."""
    import numpy as np

    ranks = [_ranks(values) for values in (one, other)]
    first, second = (values - values.mean() for values in ranks)
    both = math.sqrt(float(np.sum(first**2)) * float(np.sum(second**2)))
    return float(first @ second) / both if both else None


def kendall(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """Between -1 and 1."""
    import numpy as np

    first, second = (np.sign(np.subtract.outer(values, values)) for values in (one, other))
    both = math.sqrt(float(np.sum(first**2)) * float(np.sum(second**2)))
    return float(np.sum(first * second)) / both if both else None


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places from the lowest, 0 first; equal values share the mean of theirs."""
    import numpy as np

    below = np.less.outer(values, values).sum(axis=0)
    equal = np.equal.outer(values, values).sum(axis=0)
    places: NDArray[np.float64] = below + (equal - 1) / 2
    return places
