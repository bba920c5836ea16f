"""How far two orders of the same things agree: correlations of ranks, and what chance would give.

spearman   the correlation of ranks, equal numbers sharing the mean of their places
kendall    tau-b: (pairs in one order - pairs in opposite order) / sqrt(pairs untied in one * untied in other)
chance     the share of random orders whose tau is at least as far from 0

1: the same order, 0: none, -1: the opposite. A row of equal numbers has no order, so nothing correlates with it: None.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["chance", "kendall", "kendall_each", "spearman"]

_ORDERS = 20_000
"""Random orders that chance is estimated from, the same every time."""


def spearman(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """Of two rows of n numbers."""
    ranks = [_ranks(values) for values in (one, other)]
    first, second = (values - values.mean() for values in ranks)
    both = math.sqrt(float(np.sum(first**2)) * float(np.sum(second**2)))
    return float(first @ second) / both if both else None


def kendall(one: NDArray[np.float64], other: NDArray[np.float64]) -> float | None:
    """Of two rows of n numbers."""
    first, second = _signs(one), _signs(other)
    both = math.sqrt(float(np.sum(first**2)) * float(np.sum(second**2)))
    return float(np.sum(first * second)) / both if both else None


def kendall_each(many: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of every row of `many` (rows, n) with `other` (n): (rows,). A row of equal numbers counts as 0."""
    first, second = _signs(many), _signs(other)
    both = np.sqrt(np.sum(first**2, axis=(1, 2)) * np.sum(second**2))
    together = np.einsum("kij,ij->k", first, second)
    found: NDArray[np.float64] = np.divide(together, both, out=np.zeros(len(many)), where=both > 0)
    return found


def chance(one: NDArray[np.float64], other: NDArray[np.float64], tau: float) -> float:
    """The share of random orders of `other` that agree or disagree with `one` as strongly as `tau` says."""
    orders = np.random.default_rng(0).permuted(np.tile(other, (_ORDERS, 1)), axis=1)
    return float(np.mean(np.abs(kendall_each(orders, one)) >= abs(tau) - 1e-9))


def _signs(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Of all differences: (..., n) gives (..., n, n)."""
    signs: NDArray[np.float64] = np.sign(values[..., :, None] - values[..., None, :])
    return signs


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places from the lowest, 0 first; equal values share the mean of theirs."""
    below = np.less.outer(values, values).sum(axis=0)
    equal = np.equal.outer(values, values).sum(axis=0)
    places: NDArray[np.float64] = below + (equal - 1) / 2
    return places
