"""Contrast: every channel moves towards its own mean over the picture.

out = mean + share · (x - mean)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smelt.tasks.corruptions.pixels import to_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["contrast"]


def contrast(pictures: NDArray[np.uint8], share: float) -> NDArray[np.uint8]:
    """Keep this share of the distance from the mean."""
    pixels = pictures.shape[1] * pictures.shape[2]
    totals = pictures.sum(axis=(1, 2), dtype=np.int64, keepdims=True)  # whole numbers: no order of adding matters
    means = (totals / pixels).astype(np.float32)
    values = pictures - means
    values *= np.float32(share)
    values += means
    return to_bytes(values)
