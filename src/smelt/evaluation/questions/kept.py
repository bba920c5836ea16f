"""What evaluations of question sets have in common, kept between models: questions, prompts, what the tower sees.

The trials of a study and the merges of a suite often share their vision tower, which no recipe touched: then a picture
is looked at once for all of them. Another tower takes the place of the last one. It goes with `Data`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smelt.evaluation.questions.ask import Asked
from smelt.evaluation.questions.features import Features
from smelt.evaluation.questions.run import labelled

if TYPE_CHECKING:
    from smelt.tasks.pictures.data import Data
    from smelt.tasks.questions.task import QuestionTask

__all__ = ["Kept"]


class Kept:
    """Sets of questions with their prompts, and the features of one tower."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, str, int | None], Asked] = {}
        self._tower, self._features = "", Features()

    def sets(self, tasks: Sequence[QuestionTask], split: str, limit: int | None, data: Data) -> list[Asked]:
        """The questions of every set, read once."""
        keys = [(f"{task.folder}\0{task.model_dump_json()}", split, limit) for task in tasks]
        unread = {key: task for key, task in zip(keys, tasks, strict=True) if key not in self._sets}
        self._sets |= zip(unread, labelled(list(unread.values()), split, limit, data), strict=True)
        return [self._sets[key] for key in keys]

    def features(self, tower: str) -> Features:
        """What this tower has seen so far."""
        if tower != self._tower:
            self._tower, self._features = tower, Features()
        return self._features
