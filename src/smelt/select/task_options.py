"""Tasks as samples with options: a picture task's classes, scored by a CLIP model, or the letters of a question set.

A picture is perturbed as it is stored, before the model's resize. The shaped pictures of a pass are kept for the next
model, as long as they are few enough: they are the same for all models with one pre-processing.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.tasks.subset import fixed_subset
from smelt.tasks.task import short_digest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.tasks.perturbations.perturbation import Perturbation
    from smelt.tasks.pictures.data_cache import DataCache
    from smelt.tasks.pictures.task import PictureTask
    from smelt.tasks.questions.feature_cache import FeatureCache

__all__ = ["PictureOptions", "QuestionOptions"]

_KEPT = 256 << 20
"""Bytes of perturbed pictures that one set keeps."""


class PictureOptions:
    """A fixed part of one split of a picture task."""

    def __init__(self, task: PictureTask, split: str, limit: int | None, batch: int, data: DataCache):
        self.task, self._place, self._batch = task, f"{task.name}/{split}", batch
        self._split = data.split(task, split)
        self._indices = fixed_subset(self._split.labels, limit, self._place)
        self.labels: NDArray[np.int64] | None = self._split.labels[self._indices]
        self._kept: dict[str, NDArray[np.uint8]] = {}

    @property
    def n(self) -> int:
        return len(self._indices)

    @property
    def fingerprint(self) -> str:
        return self.task.fingerprint()

    def logits(self, model: Any, perturbation: Perturbation | None, number: int) -> NDArray[np.float32]:
        """The class scores [n, classes] of one pass."""
        from smelt.tasks.perturbations.dropout import attention_dropout

        head = model.head(self.task.classes, self.task.templates)
        seeds = self._seeds(perturbation, number)
        pictures = self._pictures(model.preprocess, perturbation, number, seeds)
        rate, parts = perturbation.rate if perturbation else 0.0, []
        for start in range(0, self.n, self._batch):
            some = slice(start, start + self._batch)
            with attention_dropout(model.model.vision_model, rate, seeds[some]):
                parts.append(model.logits(pictures[some], head).float().cpu().numpy())
        return np.concatenate(parts)

    def _seeds(self, perturbation: Perturbation | None, number: int) -> Sequence[int]:
        if perturbation is None:
            return [0] * self.n
        return [perturbation.seed_of(self._place, int(index), number) for index in self._indices]

    def _pictures(
        self, preprocess: Any, perturbation: Perturbation | None, number: int, seeds: Sequence[int]
    ) -> NDArray[np.uint8]:
        """What a model with this pre-processing sees in one pass."""
        moved = perturbation if perturbation is not None and perturbation.image else None
        key = json.dumps([repr(preprocess), [moved.seed, number] if moved else None])
        if key not in self._kept:
            parts = []
            for start in range(0, self.n, self._batch):
                some = slice(start, start + self._batch)
                read = self._split.read(self._indices[some])
                if moved:
                    read = [moved.picture(one, seed) for one, seed in zip(read, seeds[some], strict=True)]
                parts.append(preprocess.shape(read))
            shaped = np.concatenate(parts)
            if shaped.nbytes + sum(one.nbytes for one in self._kept.values()) > _KEPT:
                return shaped
            self._kept[key] = shaped
        return self._kept[key]


class QuestionOptions:
    """A fixed part of one split of a question set."""

    def __init__(self, task: Any, split: str, limit: int | None, batch: int, data: DataCache, features: FeatureCache):
        """`task` is a LetteredTask; `features` are what the vision towers of one run share."""
        from smelt.tasks.questions.option_scores import question_subset

        self.task, self._batch, self._features = task, batch, features
        self._asked = question_subset(task, split, limit, data=data)
        self.labels: NDArray[np.int64] | None = self._asked.labels

    @property
    def n(self) -> int:
        return self._asked.n

    @functools.cached_property
    def fingerprint(self) -> str:
        """The task's, and where it has no folder whose files tell, a hash over what is asked: its data may change."""
        known = str(self.task.fingerprint())
        if self.task.folder.parts:
            return known
        said = json.dumps([self._asked.texts, [one.answer for one in self._asked.questions]])
        return f"{known}-{short_digest(said)}"

    def logits(self, model: Any, perturbation: Perturbation | None, number: int) -> NDArray[np.float32]:
        """The letters' scores [n, letters] of one pass."""
        from smelt.tasks.questions.option_scores import option_logits

        scores = option_logits(
            model, self._asked, perturbation=perturbation, number=number, batch=self._batch, features=self._features
        )
        return np.asarray(scores.float().cpu().numpy(), dtype=np.float32)
