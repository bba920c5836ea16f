"""Small letters and digits in the font families that are held out of the capital letters: tasks without training."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np

from letters import alphabet, capitals, coloured_glyph, held_out
from pictures import Split, TaskPictures, shuffled

SMALL = "abcdefghijklmnopqrstuvwxyz"
DIGITS = "0123456789"
SAME = 0.9
"""Small letters that correlate more than this with the capitals of their font are capitals once more."""
_APART = "abdefghijlmnqrty"
"""Letters whose two cases differ in nearly every font."""


def build(characters: str, classes: list[str], every: int, *, val: int, test: int) -> TaskPictures:
    """A task, or a small sample of it: every so many font families."""
    of_val, of_test = held_out(capitals(every))
    mine = of_val[1::2]  # the others are in the semantic graph
    return TaskPictures(
        classes,
        train=None,
        val=_coloured(mine, characters, seed=11)[:val],
        test=_coloured(of_test, characters, seed=13)[:test],
        lossless=False,
        facts={"families of val": len(mine), "families of test": len(of_test)},
    )


def graph_families() -> list[str]:
    """The held-out families whose characters the semantic graph shows."""
    return held_out(capitals())[0][::2]


def glyphs(family: str, characters: str) -> list[list[np.ndarray]]:
    """The characters of a family in up to two weights; none where small letters are drawn as capitals."""
    drawn = alphabet(family, characters) or []
    if characters != SMALL:
        return drawn
    large = alphabet(family) or []
    return [small for small in drawn if not any(_alike(small, capital) for capital in large)]


def _coloured(families: Iterable[str], characters: str, seed: int) -> Split:
    ink, pixels, labels = random.Random(seed), [], []
    for family in families:
        for drawn in glyphs(family, characters):
            pixels += [coloured_glyph(glyph, ink) for glyph in drawn]
            labels += range(len(characters))
    return shuffled(np.stack(pixels), np.array(labels), seed)


def _alike(small: list[np.ndarray], large: list[np.ndarray]) -> bool:
    same = [np.corrcoef(small[n].ravel(), large[n].ravel())[0, 1] for n in map(SMALL.index, _APART)]
    return bool(np.median(same) > SAME)
