"""Pictures of a task, split three ways, and how they are stored.

A mosaic is one picture made of 32x32 tiles, 100 a row: small, readable by any viewer, and quick to decode. Colour
pictures are stored lossy, drawings in 16 greys without loss.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from smelt.tasks.pictures import mosaic

SIZE = 32


@dataclass(frozen=True)
class Split:
    """Pictures [n, 32, 32, 3] and their class numbers."""

    pixels: np.ndarray
    labels: np.ndarray

    def __post_init__(self) -> None:
        assert self.pixels.shape[1:] == (SIZE, SIZE, 3), self.pixels.shape
        assert self.pixels.dtype == np.uint8
        assert len(self.pixels) == len(self.labels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, chosen: slice | np.ndarray) -> Split:
        return Split(self.pixels[chosen], self.labels[chosen])


@dataclass(frozen=True)
class Named:
    """Pictures with a name each instead of a class: what the base is pre-trained on beside the tasks."""

    pixels: np.ndarray
    names: list[str]


@dataclass(frozen=True)
class TaskPictures:
    """Everything that a task's module makes from its packages."""

    classes: list[str]
    train: Split | None
    """None for a task that nothing is trained for."""
    val: Split
    test: Split
    lossless: bool
    """Drawings in 16 greys; otherwise colour pictures."""
    german: list[str] = field(default_factory=list)
    """The classes' German names, where it is trained for."""
    named: Named | None = None
    facts: dict[str, object] = field(default_factory=dict)
    """What the card tells: which vendors, families or sets are held out."""


def shuffled(pixels: np.ndarray, labels: np.ndarray, seed: int) -> Split:
    order = np.random.default_rng(seed).permutation(len(labels))
    return Split(pixels[order], labels[order])


def grey(pixels: np.ndarray) -> np.ndarray:
    """Grey pictures [n, h, w] centred in 32x32, in 16 levels, as RGB."""
    height, width = pixels.shape[1:]
    top, left = (SIZE - height) // 2, (SIZE - width) // 2
    padded = np.pad(pixels, ((0, 0), (top, SIZE - height - top), (left, SIZE - width - left)))
    levels = ((padded.astype(np.uint16) + 8) // 17 * 17).astype(np.uint8)
    return np.repeat(levels[..., None], 3, axis=-1)


def write_mosaic(path: Path, pixels: np.ndarray, *, lossless: bool) -> None:
    options = {"lossless": True, "quality": 100} if lossless else {"quality": 90}
    mosaic.write_mosaic(path, pixels, method=4, **options)
