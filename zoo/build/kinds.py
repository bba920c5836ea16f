"""Kinds: what sort of thing a sketch shows, over the test sketches; the words of the kinds are never trained on."""

from __future__ import annotations

import numpy as np

import sketches
from pictures import Split, TaskPictures, shuffled
from senses import targets

PER_CLASS = {"val": 4, "test": 16}
"""Drawings of each sketched thing, of the eight and twenty that the task sketches has."""


def build() -> TaskPictures:
    kinds = targets()["kinds"]
    numbers = {name.lower(): number for number, name in enumerate(sketches.names()[0])}

    def drawn(part: str) -> Split:
        pixels, labels = [], []
        for label, things in enumerate(kinds.values()):
            for thing in things:
                number = numbers[thing]
                chosen = sketches.split_of(number)[part][: PER_CLASS[part]]
                pixels.append(sketches.read(sketches.names()[0][number])[chosen])
                labels += [label] * len(chosen)
        return shuffled(np.concatenate(pixels), np.array(labels), seed=0)

    return TaskPictures(list(kinds), train=None, val=drawn("val"), test=drawn("test"), lossless=True)
