"""Pictures as statistics and learning take them: shaped for one model, in a fixed order, with the classes' head."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smelt.recipe.schema import DataBudget
from smelt.tasks.examples import ExampleBatch, ExampleStream, enough, shuffled
from smelt.tasks.pictures.data_cache import DataCache

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.models.families.family import Classifier
    from smelt.models.families.preprocess import Preprocess
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.pictures.task import PictureTask

__all__ = ["PictureExamples", "picture_examples"]


class PictureExamples(ExampleStream):
    """A fixed part of one split of a task, as a model with this pre-processing takes it.

    Bytes [n, height, width, 3], labels [n], and the head [classes, width].
    """

    def __init__(
        self,
        name: str,
        split: str,
        pictures: NDArray[np.uint8],
        labels: NDArray[np.int64],
        head: Tensor,
        preprocess: Preprocess,
        device: str,
    ):
        self.name, self.split = name, split
        self._pictures, self._labels, self._head, self._preprocess = pictures, labels, head, preprocess
        self._device = device
        content = hashlib.sha256(f"{name}\0{split}\0{preprocess}\0{pictures.shape}\0".encode())
        content.update(pictures.tobytes())
        content.update(labels.tobytes())
        content.update(head.detach().float().cpu().numpy().tobytes())
        self.hash = content.hexdigest()
        self.budget = DataBudget(split=split, images=len(pictures), labels=0)

    def __len__(self) -> int:
        return len(self._pictures)

    def batch(self, indices: Sequence[int]) -> ExampleBatch:
        import torch

        places = list(indices)
        pictures = torch.from_numpy(self._pictures[places]).to(self._device)
        labels = torch.from_numpy(self._labels[places]).to(self._device)
        return ExampleBatch(self._preprocess.normalise(pictures, torch.float32), labels, self._head)


def picture_examples(
    classifier: Classifier,
    task: PictureTask,
    split: str,
    *,
    count: int | None = None,
    data: DataCache | None = None,
    corruption: Corruption | None = None,
) -> PictureExamples:
    """The examples of a task for one model, as `Task.examples` says."""
    import numpy as np

    task.check_split(split)
    data = data or DataCache()
    part = data.subset(task, split, count, classifier.preprocess, corruption)
    enough(task, split, count, len(part))
    pairs = list(part.batches(512, keep=data.free_bytes))
    pictures = np.concatenate([pictures for pictures, _ in pairs])
    labels = np.concatenate([labels for _, labels in pairs])
    order = shuffled(len(pictures), f"{task.name}/{split}")
    head = classifier.head(task.classes, task.templates)
    used = split if corruption is None else f"{split}, {corruption.name}"
    return PictureExamples(
        task.name, used, pictures[order], labels[order], head, classifier.preprocess, classifier.device
    )
