"""How one model did on one split of one task: the score of every example, their mean, and its interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smelt.tasks.intervals import interval_of
from smelt.tasks.task import Task, TaskError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Result", "as_scores", "choice_result"]


@dataclass(frozen=True)
class Result:
    """One model on one split of one task. `accuracy` is the task's score, whatever its metric."""

    task: str
    task_version: int
    split: str
    scores: Sequence[float] = field(repr=False)
    """One for every example, in order, 0 to 1: where each is right or wrong, 1 or 0."""
    metric: str = "accuracy"
    loss: float | None = None
    """Mean cross-entropy over examples, or the mean negative log-likelihood per token of the reference answers."""
    seconds: float = 0.0
    unit: str = "example"
    """What one example is: a picture, a question."""
    domain: str | None = None
    corruption: str | None = None
    """What was done to the pictures before the model saw them, as `motion_blur@3`."""
    classes: tuple[str, ...] = field(default=(), repr=False)
    """What a model chose among, where all examples have the same choices."""
    confusion: NDArray[np.int64] | None = field(default=None, repr=False)
    """Counts [classes, classes]; a row per true class, a column per answer."""
    samples: Sequence[dict[str, Any]] = field(default=(), repr=False)
    """What a harness noted of every example: prompt, answer, judgement."""
    sandbox: str | None = None
    """What held the programs in the answers while they ran, where there were any to run."""
    whole: tuple[float, float, float] | None = None
    """The score of all examples together and its interval, where it is no mean over them (BLEU)."""

    @property
    def n(self) -> int:
        return len(self.scores)

    @property
    def accuracy(self) -> float:
        """The mean over examples, or the score of all together."""
        if self.whole is not None:
            return self.whole[0]
        return math.fsum(self.scores) / self.n

    @property
    def correct(self) -> int | None:
        """How many are right, where each is either right or wrong."""
        if self.whole is not None:
            return None
        return round(sum(self.scores)) if all(score in (0.0, 1.0) for score in self.scores) else None

    @property
    def interval(self) -> tuple[float, float]:
        """95 %: Wilson's for a share, else a bootstrap over examples."""
        if self.whole is not None:
            return self.whole[1:]
        return interval_of(self.scores)

    @property
    def per_class(self) -> dict[str, float | None]:
        """The accuracy on the examples of each class; nothing where there is no example."""
        if self.confusion is None:
            return {}
        totals, right = self.confusion.sum(axis=1), self.confusion.diagonal()
        return {
            name: int(right[number]) / int(totals[number]) if totals[number] else None
            for number, name in enumerate(self.classes)
        }


def choice_result(
    task: Task,
    split: str,
    labels: NDArray[np.int64],
    answers: NDArray[np.int64],
    classes: Sequence[str],
    loss: float,
    **more: Any,
) -> Result:
    """The result of answers [n] among classes whose right ones are `labels` [n]."""
    import numpy as np

    confusion = np.zeros((len(classes), len(classes)), dtype=np.int64)
    np.add.at(confusion, (labels, answers), 1)
    return Result(
        task.name,
        task.version,
        split,
        (labels == answers).astype(float).tolist(),
        loss=loss,
        unit=task.unit,
        classes=tuple(classes),
        confusion=confusion,
        **more,
    )


def as_scores(task: str, metric: str, values: Sequence[Any]) -> tuple[float, ...]:
    """Scores of examples, each between 0 and 1; anything else is no mean over examples."""
    for number, value in enumerate(values):
        if not isinstance(value, bool | int | float) or not 0 <= value <= 1:
            raise TaskError(
                f"{task}: {metric} of example {number} is {value!r}; a task's score is a mean over examples, "
                "each between 0 and 1, and its first metric has to be one"
            )
    return tuple(map(float, values))
