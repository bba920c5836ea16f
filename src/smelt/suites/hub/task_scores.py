"""One task with everything that every model says of its pictures: any selection of models is arithmetic on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from smelt.ensembles.per_class import per_class_scores
from smelt.suites.hub.suite import Weights

__all__ = ["Chosen", "TaskScores", "softmax"]

Chosen: TypeAlias = Sequence[Sequence[int]]
"""For each class the numbers of the models that are asked about it, the best first."""


@dataclass(frozen=True)
class TaskScores:
    """Pictures of one task. Models have the numbers of the hub."""

    task: str
    labels: NDArray[np.int64]
    """[n]."""
    probabilities: NDArray[np.float64]
    """[models, n, classes]. In fp64: sure models differ in how far they are from certain, and are weighed by it."""
    _known: dict[tuple[str, tuple[tuple[int, ...], ...]], int] = field(default_factory=dict, repr=False)

    def scores(self, chosen: Chosen, weights: Weights = "entropy") -> NDArray[np.float64]:
        """What the chosen models say together, [n, classes]. Only those that are chosen for some class are asked."""
        used = sorted({number for numbers in chosen for number in numbers})
        mask = np.zeros((len(used), len(chosen)), dtype=bool)
        for column, numbers in enumerate(chosen):
            mask[np.searchsorted(used, list(numbers)), column] = True
        return per_class_scores(self.probabilities[used], mask, weights)

    def right(self, chosen: Chosen, weights: Weights = "entropy") -> int:
        """How many pictures they get right; remembered, since growing hubs choose the same again and again."""
        key = (weights, tuple(tuple(sorted(numbers)) for numbers in chosen))
        if key not in self._known:
            alone = weights != "inverse_entropy" and all(len(numbers) == 1 for numbers in chosen)
            scores = self._alone(chosen) if alone else self.scores(chosen, weights)
            self._known[key] = int((scores.argmax(axis=1) == self.labels).sum())
        return self._known[key]

    def _alone(self, chosen: Chosen) -> NDArray[np.float64]:
        """One model for each class has all the weight, so that its score is its probability."""
        models = np.array([number for (number,) in chosen])
        found: NDArray[np.float64] = self.probabilities[models, :, np.arange(len(models))].T
        return found

    def loss(self, scores: NDArray[np.float64]) -> float:
        """Mean cross-entropy of scores [n, classes], each picture's made to sum to one."""
        own = scores[np.arange(len(self.labels)), self.labels] / scores.sum(axis=1)
        return float(-np.log(np.maximum(own, 1e-300)).mean())

    @cached_property
    def single(self) -> NDArray[np.int64]:
        """Right answers of every model by itself, [models]."""
        found: NDArray[np.int64] = (self.probabilities.argmax(axis=2) == self.labels).sum(axis=1).astype(np.int64)
        return found

    @cached_property
    def by_class(self) -> NDArray[np.float64]:
        """The share of each class's pictures that every model gets right, [models, classes]; nan without a picture."""
        right = self.probabilities.argmax(axis=2) == self.labels
        classes = np.arange(self.probabilities.shape[2])
        own = (self.labels[:, None] == classes).astype(np.float64)
        with np.errstate(invalid="ignore"):
            found: NDArray[np.float64] = (right.astype(np.float64) @ own) / own.sum(axis=0)
        return found


def softmax(cosines: NDArray[np.float32], scale: float) -> NDArray[np.float64]:
    """Probabilities over the last axis; scaled in fp32 as the ensemble does it, all else in fp64."""
    logits = (np.float32(scale) * cosines).astype(np.float64)
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: NDArray[np.float64] = raised / raised.sum(axis=-1, keepdims=True)
    return found
