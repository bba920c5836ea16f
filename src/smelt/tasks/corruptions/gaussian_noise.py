"""Gaussian noise: a normal number is added to every channel of every pixel; what leaves the range is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smelt.tasks.corruptions.pixels import to_bytes
from smelt.tasks.corruptions.places import normal

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["gaussian_noise"]


def gaussian_noise(pictures: NDArray[np.uint8], keys: NDArray[np.uint64], sigma: float) -> NDArray[np.uint8]:
    """Noise of standard deviation `sigma`, where white is 1."""
    values = normal(keys, pictures.shape[1:])
    values *= np.float32(255 * sigma)
    values += pictures
    return to_bytes(values)
