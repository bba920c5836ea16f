"""When a trial is hopeless: even with the best score ever seen on each task that is left, it would not be the best.

    stop after k tasks if   ( sum_{j <= k} own_j  +  sum_{j > k} max_i score_ij ) / n  <  best mean so far

Tasks differ in difficulty, so a running mean says little by itself; this compares task with task, in the same order.
It is kinder than stopping below the median: a trial that is poor where others are poor too goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["LEAST_TASKS", "LEAST_TRIALS", "PruningThreshold", "pruning_threshold"]

LEAST_TRIALS = 4
"""Whole trials before any is stopped: fewer say little of what scores there can be."""
LEAST_TASKS = 2
"""Tasks that every trial is given."""


@dataclass(frozen=True)
class PruningThreshold:
    """What a trial has to be able to reach."""

    best: float
    """The highest mean over the tasks."""
    ceiling: tuple[float, ...]
    """The highest score on each task, in their order."""

    def beyond(self, scores: Sequence[float]) -> bool:
        """Whether a trial with these scores on the first tasks can no longer be the best."""
        done = len(scores)
        if done < LEAST_TASKS or done >= len(self.ceiling):
            return False
        return (sum(scores) + sum(self.ceiling[done:])) / len(self.ceiling) < self.best


def pruning_threshold(trials: Sequence[Sequence[float]], tasks: int) -> PruningThreshold | None:
    """The bar that these trials' scores set; those that were stopped count as far as they went."""
    whole = [scores for scores in trials if len(scores) == tasks]
    if len(whole) < LEAST_TRIALS:
        return None
    ceiling = tuple(max(scores[task] for scores in trials if len(scores) > task) for task in range(tasks))
    return PruningThreshold(max(sum(scores) / tasks for scores in whole), ceiling)
