"""The random numbers of one perturbation: so many uniform ones for a seed and a use of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.tasks.corruptions.places import picture_keys, uniform

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["draws"]


def draws(seed: int, use: str, count: int) -> NDArray[np.float32]:
    """Numbers in [0, 1); those of another use of the same seed are independent of them."""
    numbers: NDArray[np.float32] = uniform(picture_keys(use, [seed], "perturb"), (count,))[0]
    return numbers
