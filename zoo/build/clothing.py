"""Clothing: Fashion-MNIST, official split."""

from __future__ import annotations

import fetch
import idx
from names import german
from pictures import TaskPictures

CLASSES = ["t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"]


def build() -> TaskPictures:
    folder = fetch.package("dataset-fashion-mnist") / "usr" / "share" / "datasets" / "fashion-mnist"
    return idx.split_task(folder, ".gz", CLASSES, german("clothing", CLASSES))
