"""A question set on one model: the letter with the highest score is its answer, without any perturbation."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from smelt.system.progress import Progress, Unit
from smelt.system.threads import torch_threads
from smelt.tasks.questions.feature_cache import FeatureCache
from smelt.tasks.questions.option_scores import QuestionSubset, option_logits, question_subset
from smelt.tasks.questions.records import LETTERS
from smelt.tasks.result import Result, choice_result
from smelt.tasks.task import PreparedTask, TaskError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.models.families.image_text.model import ImageText
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.questions.lettered import LetteredTask

__all__ = ["PreparedQuestions", "QuestionCache"]


@dataclass(frozen=True)
class PreparedQuestions(PreparedTask):
    """Questions whose answers are known; `cache` has what vision towers saw in their pictures."""

    subset: QuestionSubset
    cache: QuestionCache

    counts: ClassVar[Unit] = "questions"

    @property
    def task(self) -> Any:
        return self.subset.task

    @property
    def split(self) -> str:
        return self.subset.split

    @property
    def labels(self) -> NDArray[np.int64]:
        """The right letters [n]; one that is not known is refused."""
        labels = self.subset.labels
        if labels is None:
            first = next(question for question in self.subset.questions if question.answer is None)
            raise TaskError(
                f"{self.task.line(self.split, first)}: has no answer (null), so "
                "accuracy cannot be told; uncertainty can (`smelt select uq`)"
            )
        return labels

    def ask(self, model: ImageText, *, batch: int, threads: int | None, watch: Progress) -> Result:
        import torch

        watch.begin(self.task.name, self.subset.n)
        with torch_threads(threads):
            seen = self.cache.features(model.tower_hash)
            scores = option_logits(model, self.subset, batch=batch, features=seen, tell=watch.advance)
        labels = self.labels
        loss = float(torch.nn.functional.cross_entropy(scores.double(), torch.from_numpy(labels)))
        letters = LETTERS[: self.subset.width]
        return choice_result(self.task, self.split, labels, scores.argmax(dim=1).numpy(), letters, loss)


class QuestionCache:
    """What models share: sets of questions with their prompts, and what one tower sees. It goes with `DataCache`.

    The trials of a study and the merges of a suite often share their vision tower, which no recipe touched: then a
    picture is looked at once for all of them. Another tower takes the place of the last one.
    """

    def __init__(self) -> None:
        self._prepared: dict[tuple[str, str, int | None], PreparedQuestions] = {}
        self._tower, self._features = "", FeatureCache()

    def prepared(self, task: LetteredTask, split: str, limit: int | None, data: DataCache) -> PreparedQuestions:
        """The questions of a set, read once; all have answers."""
        said = json.dumps([task.reference, task.name, task.version, task.instruction, task.extra])
        key = (said, split, limit)
        if key not in self._prepared:
            found = PreparedQuestions(question_subset(task, split, limit, data), self)
            assert found.labels is not None  # or it says which question has none
            self._prepared[key] = found
        return self._prepared[key]

    def features(self, tower: str) -> FeatureCache:
        """What this tower has seen so far."""
        if tower != self._tower:
            self._tower, self._features = tower, FeatureCache()
        return self._features
