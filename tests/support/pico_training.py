"""Small tasks with a `train` split: coloured pictures for a CLIP, pairs of words for a language model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml

from pico_clip import COLOURS, SIDE, TEMPLATES, colour_pictures
from pico_language import write_language_task
from smelt.tasks.pictures.mosaic import write_mosaic

__all__ = ["write_colours", "write_words"]


def write_colours(folder: Path, count: int = 6) -> Path:
    """Pictures of three colours, `count` of each in train, val and test."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = {}
    for seed, split in enumerate(("train", "val", "test"), 10):
        pictures, labels[split] = colour_pictures(dict.fromkeys(COLOURS, count), seed)
        write_mosaic(folder / f"{split}.png", pictures, compress_level=1)
    np.savez(folder / "labels.npz", **labels)
    content = {
        "name": folder.name,
        "version": 1,
        "classes": list(COLOURS),
        "templates": list(TEMPLATES),
        "size": SIDE,
        "data": {"mosaics": {split: f"{split}.png" for split in labels}, "labels": "labels.npz"},
    }
    (folder / "task.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return folder


def write_words(folder: Path) -> Path:
    """A language task for the models of pico_language: a is followed by b, c by d, e by f."""
    return write_language_task(
        folder, [("a", "b"), ("c", "d"), ("e", "f"), ("a", "b")], splits=("train", "val", "test")
    )
