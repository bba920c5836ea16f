"""JPEG: written at a low quality and read again, by Pillow with its usual settings (4:2:0), as in Hendrycks' code."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np

from smelt.tasks.pictures.mosaic import pillow

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["jpeg"]


def jpeg(pictures: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """Compress each picture at this quality, 1 to 95."""
    image = pillow()
    out = np.empty_like(pictures)
    for number, picture in enumerate(pictures):
        file = io.BytesIO()
        image.fromarray(picture).save(file, "JPEG", quality=quality)
        out[number] = np.asarray(image.open(file))
    return out
