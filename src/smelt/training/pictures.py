"""Training a CLIP's picture tower on tasks of pictures, against the frozen zero-shot head of each.

    min_W  sum over tasks of mean_x  -log softmax( exp(scale) norm(P image(W, x)) · headᵀ )_label

Text tower, both projections, the scale and the heads stay the base's, so that the result still reads any class's name.
A tower of open_clip has its projection inside, which is trained with it. Batch norms learn the task's statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from smelt.tasks.pictures.task import PictureTask
from smelt.training.trainee import Trainee, autocast

if TYPE_CHECKING:
    from smelt.models.families.clip.model import Clip
    from smelt.models.families.open_clip.model import OpenClip
    from smelt.tasks.examples import ExampleBatch, ExampleStream
    from smelt.tasks.task import Task
    from smelt.training.recipe import TrainingRecipe

__all__ = ["PictureTrainee"]


class PictureTrainee(Trainee):
    """A CLIP model whose picture tower is trained."""

    family_trained = ("vision_model.*", "visual.*")
    measure = "accuracy"

    def __init__(self, clip: Clip | OpenClip, recipe: TrainingRecipe, base: str):
        super().__init__(clip, clip.model, recipe, base)
        self._objective = _Classification(clip.model, recipe, clip.device)

    @property
    def objective(self) -> nn.Module:
        return self._objective

    def examples(self, task: Task, split: str, count: int | None) -> ExampleStream:
        return PictureTask.of(task).examples(self.loaded, split, count=count)

    def cut(self, batch: ExampleBatch, size: int) -> Iterator[Mapping[str, Any]]:
        for start in range(0, len(batch.labels), size):
            some = slice(start, start + size)
            yield {
                "pixels": batch.inputs[some],
                "labels": batch.labels[some],
                "head": batch.head,
                "whole": len(batch.labels),
            }

    def validate(self, stream: ExampleStream, size: int) -> float:
        """The share of pictures that are told rightly."""
        self._objective.eval()
        with torch.no_grad():
            right = sum(
                int((self._objective.scores(batch.inputs, batch.head).argmax(1) == batch.labels).sum())
                for batch in stream.batches(size)
            )
        return right / len(stream)


class _Classification(nn.Module):
    def __init__(self, model: Any, recipe: TrainingRecipe, device: str):
        super().__init__()
        self.model, self._recipe, self._device = model, recipe, device
        self._scale = model.logit_scale.exp().detach()
        self._bias = getattr(model, "logit_bias", None)  # of open_clip's models that learned pairs one by one
        self._transformers = hasattr(model, "vision_model")

    def train(self, mode: bool = True) -> _Classification:
        """The tower alone is in training mode: what is frozen stays as it is."""
        self.training = mode
        self.model.eval()
        (self.model.vision_model if self._transformers else self.model.visual).train(mode)
        return self

    def scores(self, pixels: Tensor, head: Tensor | None) -> Tensor:
        """Cosines with the classes, times the model's scale [n, classes]."""
        assert head is not None
        with autocast(self._recipe, self._device):
            if self._transformers:
                features = self.model.visual_projection(self.model.vision_model(pixels).pooler_output.flatten(1))
            else:
                features = self.model.visual(pixels)
        scores: Tensor = self._scale * F.normalize(features.float(), dim=-1) @ head.T
        return scores if self._bias is None else scores + self._bias.detach()

    def forward(self, pixels: Tensor, labels: Tensor, head: Tensor, whole: int) -> Tensor:
        return F.cross_entropy(self.scores(pixels, head), labels, reduction="sum") / whole
