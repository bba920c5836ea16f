"""Reading MNIST's own file format."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from pictures import Split, TaskPictures, grey, shuffled


def read(path: Path) -> np.ndarray:
    """The bytes of an idx file: pictures [n, 28, 28] or labels [n]."""
    data = np.frombuffer(gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes(), np.uint8)
    return data[16:].reshape(-1, 28, 28) if "images" in path.name else data[8:].astype(np.int64)


def split_task(folder: Path, suffix: str, classes: list[str], german: list[str]) -> TaskPictures:
    """12,000 pictures to train on, 1,000 to tune on, 2,000 of the official test set to report on."""
    pictures, labels = (
        read(folder / f"train-images-idx3-ubyte{suffix}"),
        read(folder / f"train-labels-idx1-ubyte{suffix}"),
    )
    test = shuffled(
        grey(read(folder / f"t10k-images-idx3-ubyte{suffix}")), read(folder / f"t10k-labels-idx1-ubyte{suffix}"), seed=0
    )
    return TaskPictures(
        classes,
        train=Split(grey(pictures[:12_000]), labels[:12_000]),
        val=Split(grey(pictures[59_000:]), labels[59_000:]),
        test=test[:2_000],
        lossless=True,
        german=german,
    )
