"""How one language model did on one task: the score of every example, their mean, and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from smelt.evaluation.intervals import interval_of
from smelt.tasks.pictures.task import TaskError

__all__ = ["LanguageResult", "as_scores"]


@dataclass(frozen=True)
class LanguageResult:
    """One model on one split of one task. `accuracy` is the task's score, whatever its metric."""

    task: str
    task_version: int
    split: str
    metric: str
    scores: tuple[float, ...] = field(repr=False)
    """One for every example, 0 to 1."""
    seconds: float
    domain: str | None = None
    loss: float | None = None
    """The mean negative log-likelihood of the reference answers, per token."""
    samples: tuple[dict[str, Any], ...] = field(default=(), repr=False)
    """What the harness noted of every example: prompt, answer, judgement."""
    sandbox: str | None = None
    """What held the programs in the answers while they ran, where there were any to run."""
    corruption: None = None

    @property
    def n(self) -> int:
        return len(self.scores)

    @property
    def accuracy(self) -> float:
        """The mean over examples."""
        return math.fsum(self.scores) / self.n

    @property
    def correct(self) -> int | None:
        """How many are right, where each is either right or wrong."""
        return round(sum(self.scores)) if all(score in (0.0, 1.0) for score in self.scores) else None

    @property
    def interval(self) -> tuple[float, float]:
        """95 %: Wilson's for a share, else a bootstrap over examples."""
        return interval_of(self.scores)


def as_scores(task: str, metric: str, values: Sequence[Any]) -> tuple[float, ...]:
    """Scores of examples, each between 0 and 1; anything else is no mean over examples."""
    for number, value in enumerate(values):
        if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
            raise TaskError(
                f"{task}: {metric} of example {number} is {value!r}; a task's score is a mean over examples, "
                "each between 0 and 1, and its first metric has to be one"
            )
    return tuple(map(float, values))
