"""Letters: the 26 capitals in up to two weights of each font family, in random colours; whole families are held out."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import fetch
from names import german
from pictures import SIZE, Split, TaskPictures, shuffled

CLASSES = list("abcdefghijklmnopqrstuvwxyz")
VAL = 0.25
"""The share of the held-out families that is `val`; the others are `test`."""
HELD_OUT = 0.27
"""The share of families that is never trained on."""


def build(every: int = 1) -> TaskPictures:
    """The task, or a small sample of it: every so many font families."""
    glyphs = capitals(every)
    val, test = held_out(glyphs)

    def coloured(chosen: list[str], seed: int) -> Split:
        ink = random.Random(seed)
        pixels = [coloured_glyph(letter, ink) for family in chosen for letters in glyphs[family] for letter in letters]
        labels = [i for family in chosen for letters in glyphs[family] for i in range(len(letters))]
        return shuffled(np.stack(pixels), np.array(labels), seed)

    return TaskPictures(
        CLASSES,
        train=coloured([family for family in glyphs if family not in val + test], seed=2),
        val=coloured(val, seed=1),
        test=coloured(test, seed=3)[:2_000],
        lossless=False,
        german=german("letters", CLASSES),
        facts={"families": len(glyphs), "families of val": len(val), "families of test": len(test)},
    )


def capitals(every: int = 1) -> dict[str, list[list[np.ndarray]]]:
    """The alphabets of all font families whose capitals can be told apart."""
    families = sorted(name for name, entry in fetch.sources().items() if entry["use"] == "letters")
    random.Random(0).shuffle(families)
    fetch.ahead(families[::every])
    return {family: drawn for family in families[::every] if (drawn := alphabet(family)) is not None}


def held_out(families: Iterable[str]) -> tuple[list[str], list[str]]:
    """The families of `val` and those of `test`, which nothing is trained on."""
    known = list(families)
    held = known[: int(len(known) * HELD_OUT)]
    cut = round(VAL * len(held))
    return held[:cut], held[cut:]


def alphabet(family: str, characters: str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ") -> list[list[np.ndarray]] | None:
    """These characters of a family in up to two weights; None where one is empty or two look the same."""
    folder = fetch.package(family) / "package" / "files"
    fonts = sorted(path for path in folder.glob("*-latin-[47]00-normal.woff"))
    fonts = fonts or sorted(
        path for path in folder.iterdir() if re.search(r"-latin-\d00-(normal|italic)\.woff$", path.name)
    )
    drawn = []
    for path in fonts[:2]:
        font = ImageFont.truetype(str(path), 44)
        letters = [_glyph(letter, font) for letter in characters]
        if all(g is not None for g in letters) and len({g.tobytes() for g in letters}) == len(characters):
            drawn.append(letters)
    return drawn or None


def _glyph(letter: str, font: ImageFont.FreeTypeFont) -> np.ndarray | None:
    image = Image.new("L", (128, 128), 0)
    ImageDraw.Draw(image).text((64, 64), letter, font=font, fill=255, anchor="mm")
    box = image.getbbox()
    if not box:
        return None
    glyph = image.crop(box)
    side = max(glyph.size) + 8
    square = Image.new("L", (side, side), 0)
    square.paste(glyph, ((side - glyph.width) // 2, (side - glyph.height) // 2))
    return np.asarray(square.resize((SIZE, SIZE), Image.Resampling.LANCZOS))


def coloured_glyph(glyph: np.ndarray, ink: random.Random) -> np.ndarray:
    """The glyph in one random colour on another that can be told from it."""
    front, back = (np.array([ink.random() for _ in range(3)]) for _ in range(2))
    if np.abs(front - back).mean() < 0.3:
        front = np.zeros(3) if back.mean() > 0.5 else np.ones(3)
    cover = glyph[..., None].astype(np.float64) / 255
    return np.round((front * cover + back * (1 - cover)) * 255).astype(np.uint8)
