"""A question set as samples with options: the letters, scored by a model that sees and reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.tasks.questions.option_scores import option_logits, question_subset

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.tasks.perturb.perturbation import Perturbation
    from smelt.tasks.pictures.cache import DataCache
    from smelt.tasks.questions.feature_cache import FeatureCache
    from smelt.tasks.questions.task import QuestionTask

__all__ = ["QuestionSet"]


class QuestionSet:
    """A fixed part of one split of a question set."""

    def __init__(
        self, task: QuestionTask, split: str, limit: int | None, batch: int, data: DataCache, features: FeatureCache
    ):
        """`features` are what the vision towers of one run share."""
        self.task, self._batch, self._features = task, batch, features
        self._asked = question_subset(task, split, limit, data=data)
        self.labels: NDArray[np.int64] | None = self._asked.labels

    @property
    def n(self) -> int:
        return self._asked.n

    def logits(self, model: Any, perturbation: Perturbation | None, number: int) -> NDArray[np.float32]:
        """The letters' scores [n, letters] of one pass."""
        scores = option_logits(
            model, self._asked, perturbation=perturbation, number=number, batch=self._batch, features=self._features
        )
        return np.asarray(scores.float().cpu().numpy(), dtype=np.float32)
