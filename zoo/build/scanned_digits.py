"""Scanned digits: the handwriting of thirteen people at 8x8 pixels (UCI, the copy in scikit-learn), made larger."""

from __future__ import annotations

import gzip

import numpy as np
from PIL import Image

import digits
import fetch
from pictures import TaskPictures, grey, shuffled

VAL, TEST = 200, 1_000


def build() -> TaskPictures:
    folder = fetch.package("python3-sklearn") / "usr" / "lib" / "python3" / "dist-packages" / "sklearn"
    with gzip.open(folder / "datasets" / "data" / "digits.csv.gz", "rt") as lines:
        table = np.loadtxt(lines, delimiter=",").astype(np.int64)
    scans = (table[:, :64].reshape(-1, 8, 8) * 255 // 16).astype(np.uint8)
    large = [np.asarray(Image.fromarray(scan).resize((28, 28), Image.Resampling.BICUBIC)) for scan in scans]
    mixed = shuffled(grey(np.stack(large)), table[:, 64], seed=0)
    return TaskPictures(digits.CLASSES, train=None, val=mixed[:VAL], test=mixed[VAL : VAL + TEST], lossless=True)
