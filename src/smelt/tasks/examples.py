"""Examples: data as statistics and learning take it. A task's split in, batches of a network's inputs out.

The only way by which data reaches `measure`, `learn` and `mix`, so that what was used is always known: every stream
has a name, a hash over its content, and the budget that goes into result rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from smelt.errors import RecipeError
from smelt.evaluation.row import DataBudget

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.models.families.family import Classifier
    from smelt.models.families.preprocess import Preprocess
    from smelt.tasks.corruptions import Corruption
    from smelt.tasks.language.examples import LanguageExamples
    from smelt.tasks.language.task import LanguageTask
    from smelt.tasks.pictures.data import Data
    from smelt.tasks.pictures.task import Task

__all__ = ["ArrayStream", "Batch", "Examples", "Stream", "examples_for", "shuffled", "stream_for"]


@dataclass(frozen=True)
class Batch:
    """Inputs of a network with their labels, and what it knows of the classes; all on the network's device."""

    inputs: Any
    labels: Tensor
    head: Tensor | None


class Stream(Protocol):
    """Examples of one task in a fixed order."""

    @property
    def name(self) -> str:
        """The task."""

    @property
    def hash(self) -> str:
        """Over the examples and their order."""

    @property
    def budget(self) -> DataBudget:
        """What its use costs in data."""

    def __len__(self) -> int: ...

    def batch(self, indices: Sequence[int]) -> Batch:
        """The examples at these places."""

    def batches(self, size: int) -> Iterator[Batch]:
        """All of them in order."""


def _in_order(stream: Stream, size: int) -> Iterator[Batch]:
    for start in range(0, len(stream), size):
        yield stream.batch(range(start, min(start + size, len(stream))))


class ArrayStream:
    """Examples in memory: inputs [n, ...] and labels [n]."""

    def __init__(self, name: str, inputs: Tensor, labels: Tensor, head: Tensor | None = None):
        if len(inputs) != len(labels):
            raise RecipeError(f"{name}: {len(inputs)} inputs, but {len(labels)} labels")
        self.name, self._inputs, self._labels, self._head = name, inputs, labels, head
        content = hashlib.sha256(name.encode())
        for tensor in (inputs, labels, *([head] if head is not None else [])):
            content.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
            content.update(tensor.detach().cpu().contiguous().numpy().tobytes())
        self.hash = content.hexdigest()
        self.budget = DataBudget(images=len(inputs), labels=0)

    def __len__(self) -> int:
        return len(self._inputs)

    def batch(self, indices: Sequence[int]) -> Batch:
        places = list(indices)
        return Batch(self._inputs[places], self._labels[places], self._head)

    def batches(self, size: int) -> Iterator[Batch]:
        return _in_order(self, size)


class Examples:
    """A fixed part of one split of a task, as a model with this pre-processing takes it."""

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

    def batch(self, indices: Sequence[int]) -> Batch:
        import torch

        places = list(indices)
        pictures = torch.from_numpy(self._pictures[places]).to(self._device)
        labels = torch.from_numpy(self._labels[places]).to(self._device)
        return Batch(self._preprocess.normalise(pictures, torch.float32), labels, self._head)

    def batches(self, size: int) -> Iterator[Batch]:
        return _in_order(self, size)


def examples_for(
    classifier: Classifier,
    task: Task,
    *,
    split: str,
    count: int | None = None,
    data: Data | None = None,
    corruption: Corruption | None = None,
) -> Examples:
    """The examples of a task for one model: `count` of the split, always the same and in the same order, or all.

    With a corruption the pictures are damaged before the model's own resize, and the budget says so.

    Fewer than asked for is an error, not a smaller number: a statistic of 100 examples must not pass for one of 256.
    """
    import numpy as np

    from smelt.tasks.pictures.data import Data

    task.check_split(split)
    data = data or Data()
    part = data.part(task, split, count, classifier.preprocess, corruption)
    if count is not None and len(part) < count:
        raise RecipeError(
            f"{task.name}: {count} examples are asked for, but its {split} split has {len(part)}; "
            f"ask for at most {len(part)}, or use another split"
        )
    pairs = list(part.batches(512, keep=data.room))
    pictures = np.concatenate([pictures for pictures, _ in pairs])
    labels = np.concatenate([labels for _, labels in pairs])
    order = shuffled(len(pictures), f"{task.name}/{split}")
    head = classifier.head(task.classes, task.templates)
    used = split if corruption is None else f"{split}, {corruption.name}"
    return Examples(task.name, used, pictures[order], labels[order], head, classifier.preprocess, classifier.device)


def stream_for(
    model: Any,
    task: Task | LanguageTask,
    *,
    split: str,
    count: int | None = None,
    data: Data | None = None,
    corruption: Corruption | None = None,
) -> Examples | LanguageExamples:
    """The examples of a task of any kind, for a model that was loaded for it."""
    from smelt.tasks.language.task import LanguageTask

    if not isinstance(task, LanguageTask):
        return examples_for(model, task, split=split, count=count, data=data, corruption=corruption)
    from smelt.tasks.language.examples import language_examples

    if corruption is not None:
        raise RecipeError(f"{task.name}: {corruption.name} is done to pictures, and this task has texts; leave it out")
    return language_examples(model, task, split=split, count=count)


def shuffled(count: int, place: str) -> NDArray[np.int64]:
    """An order that is the same for all time: splits may be stored class by class."""
    import numpy as np

    ranks = [hashlib.blake2b(f"{place}\0order {i}".encode(), digest_size=8).digest() for i in range(count)]
    return np.array(sorted(range(count), key=ranks.__getitem__), dtype=np.int64)
