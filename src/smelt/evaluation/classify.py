"""Classification: a model and tasks in, results out. Accuracy and loss are means over pictures, not over batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from smelt.errors import NumericalError, RecipeError
from smelt.evaluation.intervals import wilson
from smelt.system.progress import Progress
from smelt.system.threads import ahead, one_core_each
from smelt.tasks.corruptions import Corruption, read_corruptions
from smelt.tasks.find import Tasks, picture_tasks
from smelt.tasks.pictures.data import Data, Part
from smelt.tasks.pictures.task import Task

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.models.families.family import Classifier

__all__ = ["Result", "evaluate_model", "load_classifier"]

_CHUNK = 64
"""Pictures that one thread of a CPU takes at once: enough for its arithmetic to be busy, few enough for its cache."""


@dataclass(frozen=True)
class Result:
    """How one model did on one split of one task."""

    task: str
    task_version: int
    split: str
    n: int
    correct: int
    loss: float
    """Mean cross-entropy."""
    seconds: float
    classes: tuple[str, ...] = field(repr=False)
    confusion: NDArray[np.int64] = field(repr=False)
    """Counts; a row per true class, a column per answer."""
    corruption: str | None = None
    """What was done to the pictures before the model saw them, as `motion_blur@3`."""
    metric: ClassVar[str] = "accuracy"

    @property
    def accuracy(self) -> float:
        return self.correct / self.n

    @property
    def interval(self) -> tuple[float, float]:
        """The 95 % Wilson interval of the accuracy."""
        return wilson(self.correct, self.n)

    @property
    def per_class(self) -> dict[str, float | None]:
        """The accuracy on the pictures of each class; nothing where there is no picture."""
        totals, right = self.confusion.sum(axis=1), self.confusion.diagonal()
        return {
            name: int(right[number]) / int(totals[number]) if totals[number] else None
            for number, name in enumerate(self.classes)
        }


def evaluate_model(
    model: Any,
    tasks: Tasks = "clip8",
    *,
    split: str = "test",
    limit: int | None = None,
    text_from: Any = None,
    batch: int = 256,
    device: str = "cpu",
    dtype: str = "float32",
    threads: int | None = None,
    quiet: bool = True,
    data: Data | None = None,
    allow_pickle: bool = False,
    corruption: str | Corruption | None = None,
) -> list[Result]:
    """Classify the pictures of every task with one model.

    `model` is a reference, a Source, a module, a state dict or a loaded Classifier (which keeps its device and dtype);
    `text_from` gives the text tower, projections, config and tokenizer where the model lacks them, and may be a loaded
    Classifier too. At most `batch` pictures are computed at once (on a CPU at most 64 by each thread). `limit` takes a
    fixed, representative part of every split, the same for every model. `data` is shared by several evaluations so
    that pictures are read once. With `allow_pickle` references may name pickles. A `corruption` (`motion_blur@3`) is
    done to the stored pictures, before the model's resize.
    """
    import torch

    chosen = picture_tasks(tasks)
    for task in chosen:
        task.check_split(split)
    if batch < 1:
        raise RecipeError(f"batch is a number of pictures, at least 1; got {batch}")
    (worse,) = read_corruptions(corruption)
    data = data or Data()
    threads = threads or torch.get_num_threads()
    with one_core_each(threads, "smelt-classify") as pool, Progress(quiet, "pictures") as watch:
        classifier = load_classifier(model, text_from=text_from, device=device, dtype=dtype, allow_pickle=allow_pickle)
        run = _Run(classifier, split, limit, batch, data, watch, pool, threads, worse)
        return [run.classify(task) for task in chosen]


def load_classifier(
    model: Any, *, text_from: Any = None, device: str = "cpu", dtype: str = "float32", allow_pickle: bool = False
) -> Classifier:
    """A model ready to classify; one that is loaded already is returned as it is."""
    if hasattr(model, "logits") and hasattr(model, "head"):
        loaded: Classifier = model
        return loaded
    from smelt.mixing.note import is_mixed

    if is_mixed(model):
        from smelt.mixing.classifier import load_mixed

        return load_mixed(model, text_from=text_from, device=device, dtype=dtype, allow_pickle=allow_pickle)
    from smelt.learning.neulig.note import is_collaboration

    if is_collaboration(model):
        from smelt.learning.neulig.classifier import load_collaboration

        if text_from is not None:
            raise RecipeError(f"{model}: a collaboration has the text tower of its own base; leave text_from out")
        return load_collaboration(model, device=device, dtype=dtype)
    from smelt.models.families.clip.family import CLIP

    return CLIP.load(model, text_from=text_from, device=device, dtype=dtype, allow_pickle=allow_pickle)


@dataclass(frozen=True)
class _Run:
    """One model on its way through the tasks."""

    model: Classifier
    split: str
    limit: int | None
    batch: int
    data: Data
    watch: Progress
    pool: ThreadPoolExecutor
    threads: int
    corruption: Corruption | None = None

    def classify(self, task: Task) -> Result:
        import numpy as np
        import torch

        began = time.perf_counter()
        part = self.data.part(task, self.split, self.limit, self.model.preprocess, self.corruption)
        corruption = self.corruption.name if self.corruption else None
        self.watch.begin(f"{task.name}, {corruption}" if corruption else task.name, len(part))
        head = self.model.head(task.classes, task.templates)
        confusion = np.zeros((len(task.classes), len(task.classes)), dtype=np.int64)
        loss = 0.0
        for labels, logits in self._scores(part, head):
            truth = torch.from_numpy(labels).to(logits.device)
            loss += float(torch.nn.functional.cross_entropy(logits.double(), truth, reduction="sum"))
            np.add.at(confusion, (labels, logits.argmax(dim=1).cpu().numpy()), 1)
            self.watch.advance(len(labels))
        if not np.isfinite(loss):
            raise NumericalError(
                f"{self.model.label} gives NaN or infinite scores on {task.name}; its weights are not sound"
            )
        n, correct = len(part), int(confusion.trace())
        self.watch.end(f"{100 * (correct / n):.1f} %")
        seconds = time.perf_counter() - began
        return Result(
            task.name, task.version, self.split, n, correct, loss / n, seconds, task.classes, confusion, corruption
        )

    def _scores(self, part: Part, head: Tensor) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        def work(batch: tuple[NDArray[np.uint8], NDArray[np.int64]]) -> tuple[NDArray[np.int64], Tensor]:
            pictures, labels = batch
            return labels, self.model.logits(pictures, head)

        if self.model.device != "cpu":
            yield from map(work, part.batches(self.batch, keep=self.data.room))
            return
        batches = part.batches(min(self.batch, _CHUNK), keep=self.data.room)
        yield from ahead(self.pool, work, batches, 2 * self.threads)
