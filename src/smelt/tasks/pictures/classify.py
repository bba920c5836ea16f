"""Classification: the pictures of a task and a classifier in, a result out.

Accuracy and loss are means over pictures, not over batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from smelt.errors import NumericalError
from smelt.system.progress import Progress, Unit
from smelt.system.threads import map_ahead, single_core_pool
from smelt.tasks.corruptions.corruption import Corruption
from smelt.tasks.pictures.data_cache import DataCache, PictureSubset
from smelt.tasks.pictures.task import PictureTask
from smelt.tasks.result import Result, choice_result
from smelt.tasks.task import PreparedTask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.models.families.family import Classifier

__all__ = ["PreparedPictures"]

_CHUNK = 64
"""Pictures that one thread of a CPU takes at once: enough for its arithmetic to be busy, few enough for its cache."""


@dataclass(frozen=True)
class PreparedPictures(PreparedTask):
    """Pictures of one split, which are shaped when it is known for which model."""

    task: PictureTask
    split: str
    limit: int | None
    data: DataCache
    corruption: Corruption | None = None

    counts: ClassVar[Unit] = "pictures"

    def ask(self, model: Classifier, *, batch: int, threads: int | None, watch: Progress) -> Result:
        import numpy as np
        import torch

        task, corruption = self.task, self.corruption.name if self.corruption else None
        pictures = self.data.subset(task, self.split, self.limit, model.preprocess, self.corruption)
        watch.begin(f"{task.name}, {corruption}" if corruption else task.name, len(pictures))
        head = model.head(task.classes, task.templates)
        answers, loss = [], 0.0
        for labels, logits in self._logits(model, pictures, head, batch, threads or torch.get_num_threads()):
            truth = torch.from_numpy(labels).to(logits.device)
            loss += float(torch.nn.functional.cross_entropy(logits.double(), truth, reduction="sum"))
            answers.append(logits.argmax(dim=1).cpu().numpy())
            watch.advance(len(labels))
        if not np.isfinite(loss):
            raise NumericalError("scores with NaN or infinity")
        found, loss = np.concatenate(answers), loss / len(pictures)
        return choice_result(task, self.split, pictures.labels, found, task.classes, loss, corruption=corruption)

    def _logits(
        self, model: Classifier, pictures: PictureSubset, head: Tensor, batch: int, threads: int
    ) -> Iterator[tuple[NDArray[np.int64], Tensor]]:
        """Labels [b] and scores [b, classes] of batches, in order."""

        def work(batch: tuple[NDArray[np.uint8], NDArray[np.int64]]) -> tuple[NDArray[np.int64], Tensor]:
            shaped, labels = batch
            return labels, model.logits(shaped, head)

        if model.device != "cpu":
            yield from map(work, pictures.batches(batch, keep=self.data.free_bytes))
            return
        with single_core_pool(threads, "smelt-classify") as pool:
            batches = pictures.batches(min(batch, _CHUNK), keep=self.data.free_bytes)
            yield from map_ahead(pool, work, batches, 2 * threads)
