"""The Open Clip Art Library of 2005 (Debian's openclipart-png): public-domain drawings, by their names in the package."""

from __future__ import annotations

import functools
from pathlib import Path

import numpy as np
from PIL import Image

import fetch
from pictures import SIZE

MARGIN = 0.04


@functools.cache
def folder() -> Path:
    return fetch.package("openclipart-png") / "usr" / "share" / "openclipart" / "png"


def clip_art(name: str) -> np.ndarray:
    """A drawing (`animals/birds/crow_01`) on white paper, cut to what is drawn, as 32x32 RGB."""
    with Image.open(folder() / f"{name}.png") as image:
        drawing = image.convert("RGBA")
    paper = Image.new("RGBA", drawing.size, (255, 255, 255, 255))
    paper.alpha_composite(drawing)
    pixels = np.asarray(paper.convert("RGB"))
    drawn = pixels.min(2) < 243
    rows, columns = np.flatnonzero(drawn.any(1)), np.flatnonzero(drawn.any(0))
    if not len(rows):
        raise ValueError(f"{name}: nothing is drawn on it")
    top, bottom, left, right = rows[0], rows[-1] + 1, columns[0], columns[-1] + 1
    side = round(max(bottom - top, right - left) * (1 + 2 * MARGIN))
    square = Image.new("RGB", (side, side), (255, 255, 255))
    cut = Image.fromarray(pixels[top:bottom, left:right])
    square.paste(cut, ((side - cut.width) // 2, (side - cut.height) // 2))
    return np.asarray(square.resize((SIZE, SIZE), Image.Resampling.LANCZOS))
