"""A hub that grows: models join one by one in random orders, and after each the selection is made anew (Figure 3).

What a method thinks of a model does not depend on the other models, so that a smaller hub is a slice of the whole one:
at its full size every order gives the result of the whole hub.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from smelt.hub.selection.select import choose
from smelt.suites.hub.suite import Weights
from smelt.suites.hub.task_scores import TaskScores

__all__ = ["Opinion", "band", "chosen_among", "grow", "orders"]

Opinion: TypeAlias = "Callable[[NDArray[np.int64]], NDArray[np.float64]]"
"""From the numbers of the models that are there, ascending, to what a method thinks of each for each class."""


def orders(models: int, count: int, seed: int) -> NDArray[np.int64]:
    """So many orders in which the models join, [count, models]; order i is the same however many follow it."""
    return np.stack([np.random.default_rng([seed, number]).permutation(models) for number in range(count)])


def chosen_among(scores: NDArray[np.float64], there: NDArray[np.int64], k: int) -> list[tuple[int, ...]]:
    """The best k of the models that are there for every class, by their numbers in the whole hub."""
    return [tuple(int(there[place]) for place in places) for places in choose(scores, min(k, len(there)))]


def grow(
    known: TaskScores, opinion: Opinion, joining: NDArray[np.int64], k: int, weights: Weights
) -> NDArray[np.int64]:
    """Right answers after each model that joins, [orders, models]."""
    found = np.zeros(joining.shape, dtype=np.int64)
    for number, order in enumerate(joining):
        for size in range(1, len(order) + 1):
            there = np.sort(order[:size])
            found[number, size - 1] = known.right(chosen_among(opinion(there), there, k), weights)
    return found


def band(right: NDArray[np.int64], counts: NDArray[np.int64]) -> dict[str, list[float]]:
    """The mean over orders of the average accuracy over the tasks, and its 10 and 90 % quantiles.

    `right` is [orders, sizes, tasks], `counts` the pictures of the tasks.
    """
    averages = (right / counts).mean(axis=2)
    low, high = np.quantile(averages, (0.1, 0.9), axis=0)
    return {"mean": averages.mean(axis=0).tolist(), "low": low.tolist(), "high": high.tolist()}
