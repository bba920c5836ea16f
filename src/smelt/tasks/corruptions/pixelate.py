"""Pixelate: a smaller picture of block means, drawn at the old size again. The blocks are a share of the picture.

The smaller picture has ⌊share · side⌋ blocks a side, at least one; Pillow's box filter makes it and enlarges it, as in
Hendrycks' code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smelt.tasks.pictures.mosaic import pillow

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["pixelate"]


def pixelate(pictures: NDArray[np.uint8], share: float) -> NDArray[np.uint8]:
    """Keep this share of the pixels of each side."""
    image = pillow()
    box = image.Resampling.BOX
    height, width = pictures.shape[1:3]
    blocks = max(1, int(width * share)), max(1, int(height * share))
    out = np.empty_like(pictures)
    for number, picture in enumerate(pictures):
        out[number] = np.asarray(image.fromarray(picture).resize(blocks, box).resize((width, height), box))
    return out
