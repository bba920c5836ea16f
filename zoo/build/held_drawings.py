"""Emoji and icons that nothing is trained on, under finer words than the tasks emoji and icons ask for.

`test` is emoji of the held-out vendors, those that are in `test` of the task emoji, and icons of the sets that are `test`
of the task icons. `val` is of others again: emoji of two vendors that no model saw, and icons of the sets that are held
out but are like trained ones.
"""

from __future__ import annotations

import functools
import random

import numpy as np
from PIL import Image

import emoji
import icons
from pictures import SIZE
from vector import draw, icon_names, on_paper, slug

VENDORS = {"val": emoji.UNSEEN, "test": emoji.HELD_OUT}
VIEWS = 2
"""Of each emoji: as it is, and as somebody else might place it."""


def emoji_views(label: str, part: str) -> list[np.ndarray]:
    """All drawings of an emoji by the vendors of a split, each in its views."""
    if part == "test" and label not in _tested():
        raise ValueError(f"the held-out drawings of {label!r} are val of the task emoji")
    views = []
    for vendor in VENDORS[part]:
        if (icon := slug(label)) in icon_names(vendor):
            drawing = draw(vendor, icon, size=4 * SIZE)
            hand = random.Random(f"{vendor} {icon}")
            views += [on_paper(drawing, SIZE), *(_placed(drawing, hand) for _ in range(VIEWS - 1))]
    return views


def icon_drawings(words: list[str], part: str) -> list[np.ndarray]:
    """All drawings under these names in the icon sets of a split that look like no other one among them."""
    found: list[np.ndarray] = []
    for word in words:
        for set_name, drawn in sorted(icons.by_name_once().get(word, {}).items()):
            if _part(set_name) == part:
                found += [ink for icon in drawn if (ink := icons.drawn(set_name, icon)) is not None]
    if not found:
        return []
    black, kept = icons.black(found), []
    for number, picture in enumerate(black):
        if number == 0 or not icons.alike(picture[None], black[:number])[0]:
            kept.append(picture)
    return kept


def trained_icons(words: list[str]) -> np.ndarray:
    """All drawings under these names in the sets that models are trained on."""
    found = [
        ink
        for word in words
        for set_name, drawn in sorted(icons.by_name_once().get(word, {}).items())
        if _part(set_name) == "train"
        for icon in drawn
        if (ink := icons.drawn(set_name, icon)) is not None
    ]
    return icons.black(found)


@functools.cache
def _tested() -> frozenset[str]:
    return frozenset(e["label"].lower() for e in emoji.parts(emoji.listed()[0])[1])


def _part(set_name: str) -> str:
    """The split of an icon set. Those in none are `val` here, and the ones of the task's `val` are the graph's."""
    split = icons.splits_once().get(set_name)
    return {None: "val", "val": "graph"}.get(split, split)


def _placed(drawing: Image.Image, hand: random.Random) -> np.ndarray:
    """Turned a little, smaller, off the middle, and half of the time mirrored."""
    turned = drawing.transpose(Image.Transpose.FLIP_LEFT_RIGHT) if hand.random() < 0.5 else drawing
    turned = turned.rotate(hand.uniform(-15, 15), Image.Resampling.BICUBIC, expand=True)
    side = round(max(turned.size) * hand.uniform(1.0, 1.25))
    paper = Image.new("RGBA", (side, side), (255, 255, 255, 255))
    room = side - turned.width, side - turned.height
    paper.alpha_composite(turned, (hand.randint(0, room[0]), hand.randint(0, room[1])))
    return np.asarray(paper.convert("RGB").resize((SIZE, SIZE), Image.Resampling.LANCZOS))
