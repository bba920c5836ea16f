"""Impulse noise (salt and pepper): a share of the numbers become 0 or 255, each channel by its own chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smelt.tasks.corruptions.places import uniform

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["impulse_noise"]


def impulse_noise(pictures: NDArray[np.uint8], keys: NDArray[np.uint64], share: float) -> NDArray[np.uint8]:
    """Half of the share becomes 0, the other half 255."""
    chance = uniform(keys, pictures.shape[1:])
    out = np.where(chance < share / 2, np.uint8(0), pictures)
    return np.where(chance >= 1 - share / 2, np.uint8(255), out)
