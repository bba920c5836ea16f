"""The pictures that questions are asked about: those of the picture tasks, by task, split and number.

Training takes the pool's `train` pictures (zoo/.cache/pool, written by pack.py), the question sets the shipped `val` and
`test` pictures of the tasks, so that no picture is in both.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import captions
from smelt.tasks.pictures.mosaic import read_mosaic
from smelt.tasks.pictures.splits import open_split
from smelt.tasks.registry import picture_task

POOL = "pool"
"""The name of the training split in a reference."""
MOST = 12_000
"""Training pictures of one task, at most."""


@dataclass(frozen=True)
class Shelf:
    """The labelled pictures of one split of one task."""

    task: str
    split: str
    classes: tuple[str, ...]
    labels: NDArray[np.int64]

    @functools.cached_property
    def by_class(self) -> dict[str, list[int]]:
        """Numbers of the pictures of each class."""
        return {name: np.flatnonzero(self.labels == number).tolist() for number, name in enumerate(self.classes)}

    @functools.cached_property
    def pixels(self) -> NDArray[np.uint8]:
        """All pictures, uint8 [n, 32, 32, 3]."""
        if self.split == POOL:
            return read_mosaic(captions.POOL / f"{self.task}-train.webp", len(self.labels), 32)
        split = open_split(picture_task(self.task), self.split)
        return np.stack(list(split.read(np.arange(len(self.labels)))))


@functools.cache
def shelf(task: str, split: str) -> Shelf:
    if split == POOL:
        about = captions.read_pool()[task]
        labels = np.array(about["labels"]["train"])
        return Shelf(task, split, tuple(name.lower() for name in about["classes"]), labels)
    found = picture_task(task)
    return Shelf(task, split, tuple(name.lower() for name in found.classes), open_split(found, split).labels)
