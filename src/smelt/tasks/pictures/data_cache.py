"""Data: the pictures of several tasks, kept in memory between models, or streamed where they are too many.

What is kept are bytes after the model's resize and crop, so a second model with the same pre-processing reads and
resizes nothing. A split that would not fit the limit is decoded and resized again each time, by threads that run
ahead of the model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from smelt.system.threads import map_ahead
from smelt.tasks.pictures.splits import ArraySplit, Split, open_split
from smelt.tasks.subset import fixed_subset

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.models.families.preprocess import Preprocess
    from smelt.tasks.corruptions.corruption import Corruption
    from smelt.tasks.pictures.task import PictureTask

__all__ = ["DataCache", "PictureSubset"]

T = TypeVar("T")

_MEMORY = 2 << 30
_AHEAD = 4
"""Batches that lie ready before the model asks for them."""


class PictureSubset:
    """The pictures of one split, or a fixed part of them, as one pre-processing shapes them.

    A corruption comes before it, at the size of the stored picture. `place` (task and split) is where its randomness
    belongs.
    """

    def __init__(
        self,
        split: Split,
        indices: NDArray[np.int64],
        preprocess: Preprocess,
        corruption: Corruption | None = None,
        place: str = "",
    ):
        self._split, self._indices, self._preprocess = split, indices, preprocess
        self._corruption, self._place = corruption, place
        self.labels: NDArray[np.int64] = split.labels[indices]
        self._kept: NDArray[np.uint8] | None = self._as_they_are()

    def __len__(self) -> int:
        return len(self._indices)

    def batches(self, size: int, *, keep: int = 0) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
        """Bytes [b, height, width, 3] and labels [b]; all are kept if they take at most `keep` bytes."""
        import numpy as np

        starts = range(0, len(self), size)
        if self._kept is not None:
            for start in starts:
                yield self._kept[start : start + size], self.labels[start : start + size]
            return
        seen: list[NDArray[np.uint8]] | None = []
        for start, pictures in zip(starts, self._ahead(size), strict=True):
            if seen is not None:
                seen.append(pictures)
                if pictures[0].nbytes * len(self) > keep:
                    seen = None
            yield pictures, self.labels[start : start + size]
        if seen is not None:
            self._kept = np.concatenate(seen)

    @property
    def nbytes(self) -> int:
        """Bytes it keeps beyond those of the split itself."""
        shared = self._kept is None or (isinstance(self._split, ArraySplit) and self._kept is self._split.pictures)
        return 0 if shared or self._kept is None else self._kept.nbytes

    def _as_they_are(self) -> NDArray[np.uint8] | None:
        split = self._split
        if self._corruption is not None:
            return None
        if not isinstance(split, ArraySplit) or not self._preprocess.keeps(*split.pictures.shape[1:3]):
            return None
        return split.pictures if len(self) == len(split) else split.pictures[self._indices]

    def _ahead(self, size: int) -> Iterator[NDArray[np.uint8]]:
        """Batches in order, a few of them prepared by threads while the model works on an earlier one."""
        workers = os.cpu_count() or 1
        pieces = (self._indices[start : start + size] for start in range(0, len(self), size))
        with ThreadPoolExecutor(workers, thread_name_prefix="smelt-pictures") as pool:
            yield from map_ahead(pool, self._read, pieces, workers + _AHEAD)

    def _read(self, indices: NDArray[np.int64]) -> NDArray[np.uint8]:
        pictures = self._split.read(indices)
        if self._corruption is not None:
            pictures = self._corruption.apply(pictures, indices, self._place)
        return self._preprocess.shape(pictures)


class DataCache:
    """The pictures of all tasks that were asked for so far. Give one to several evaluations and they share it.

    Corrupted pictures are kept for one corruption, the last one: ask for all models before the next corruption.
    """

    def __init__(self, *, memory: int = _MEMORY):
        self._memory = memory
        self._splits: dict[tuple[str, str, Corruption | None], Split] = {}
        self._subsets: dict[tuple[str, str, int | None, Preprocess, Corruption | None], PictureSubset] = {}
        self._beside: dict[type, Any] = {}

    def beside(self, kind: type[T]) -> T:
        """What else evaluations keep for one another: one of each kind, made when it is first asked for."""
        if kind not in self._beside:
            self._beside[kind] = kind()
        found: T = self._beside[kind]
        return found

    def split(self, task: PictureTask, split: str, corruption: Corruption | None = None) -> Split:
        """One split of a task, opened once; another one where the data set stores its pictures damaged."""
        stored = corruption if corruption is not None and corruption.stored else None
        key = (_identity(task), split, stored)
        if key not in self._splits:
            self._splits[key] = open_split(task, split, stored)
        return self._splits[key]

    def subset(
        self,
        task: PictureTask,
        split: str,
        limit: int | None,
        preprocess: Preprocess,
        corruption: Corruption | None = None,
    ) -> PictureSubset:
        """The pictures of a split as a model with this pre-processing sees them; at most `limit`, always the same."""
        if corruption is not None:
            self._subsets = {key: one for key, one in self._subsets.items() if key[-1] in (None, corruption)}
        key = (_identity(task), split, limit, preprocess, corruption)
        if key not in self._subsets:
            opened, place = self.split(task, split, corruption), f"{task.name}/{split}"
            indices = fixed_subset(opened.labels, limit, place)
            damage = None if corruption is not None and corruption.stored else corruption
            self._subsets[key] = PictureSubset(opened, indices, preprocess, damage, place)
        return self._subsets[key]

    @property
    def free_bytes(self) -> int:
        """Bytes that may still be kept."""
        return max(0, self._memory - sum(one.nbytes for one in self._subsets.values()))


def _identity(task: PictureTask) -> str:
    return f"{task.folder}\0{task.model_dump_json()}"
