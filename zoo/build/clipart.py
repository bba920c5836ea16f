"""Clip art: nouns in drawings of many people (Open Clip Art Library); other drawings of them are in the semantic graph."""

from __future__ import annotations

import numpy as np

from openclipart import clip_art
from pictures import Split, TaskPictures, shuffled
from senses import clip_art_of

WORDS = {
    "cellular_telephone.n.01": "mobile phone",
    "file_folder.n.01": "folder",
    "hand_glass.n.02": "magnifying glass",
    "note.n.03": "musical note",
}
"""The class's name where the synset's is not what people say."""


def build() -> TaskPictures:
    shown = {synset: parts for synset, parts in clip_art_of().items() if "test" in parts}
    names = [WORDS.get(synset, synset.split(".")[0].replace("_", " ")) for synset in shown]

    def drawn(part: str) -> Split:
        pairs = [(name, number) for number, parts in enumerate(shown.values()) for name in parts[part]]
        return shuffled(np.stack([clip_art(name) for name, _ in pairs]), np.array([n for _, n in pairs]), seed=0)

    return TaskPictures(names, train=None, val=drawn("val"), test=drawn("test"), lossless=False)
