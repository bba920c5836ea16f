"""What evaluations of question sets have in common, kept between models: questions, prompts, what the tower sees.

The trials of a study and the merges of a suite often share their vision tower, which no recipe touched: then a picture
is looked at once for all of them. Another tower takes the place of the last one. It goes with `DataCache`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.tasks.questions.ask import PreparedQuestions
from smelt.tasks.questions.feature_cache import FeatureCache
from smelt.tasks.questions.option_scores import question_subset

if TYPE_CHECKING:
    from smelt.tasks.pictures.cache import DataCache
    from smelt.tasks.questions.task import QuestionTask

__all__ = ["QuestionCache"]


class QuestionCache:
    """Sets of questions with their prompts, and the features of one tower."""

    def __init__(self) -> None:
        self._prepared: dict[tuple[str, str, int | None], PreparedQuestions] = {}
        self._tower, self._features = "", FeatureCache()

    def prepared(self, task: QuestionTask, split: str, limit: int | None, data: DataCache) -> PreparedQuestions:
        """The questions of a set, read once; all have answers."""
        key = (f"{task.folder}\0{task.model_dump_json()}", split, limit)
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
