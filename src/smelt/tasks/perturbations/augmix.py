"""AugMix: chains of small changes of a picture, mixed with each other and with the picture itself.

    out = (1 - m) x + m sum_i w_i chain_i(x)      m uniform in [0, 1), w uniform over all shares of three
    a chain is one to three operations, each at 0, 1 or 2 ninths of its largest magnitude, to either side
Hendrycks et al. 2020, arXiv:1912.02781. The numbers are the defaults of torchvision's v2.AugMix: severity 3, width 3,
depth 1 to 3, alpha 1 (so both Dirichlet distributions are uniform), all operations, bilinear, no fill; like there the
mixture is cut down to whole numbers. Differs from it: what is drawn follows from a seed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import RecipeError
from smelt.tasks.corruptions.numerics import picture_keys, uniform
from smelt.tasks.perturbations.operations import OPERATIONS, apply

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["augmix", "draws"]

_SEVERITY = 3
_WIDTH = 3
_DEPTH = 3
_DRAWS = 1 + _WIDTH + _WIDTH * (1 + 3 * _DEPTH)


def augmix(pixels: NDArray[np.uint8], seed: int) -> NDArray[np.uint8]:
    """Perturb one picture of bytes [height, width, 3], of any size."""
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        given = f"{pixels.dtype} {list(pixels.shape)}"
        raise RecipeError(f"augmix: a picture is bytes (uint8) [height, width, 3]; got {given}")
    numbers = draws(seed, "augmix", _DRAWS)
    share = numbers[0]
    weights = -np.log1p(-numbers[1 : 1 + _WIDTH])  # exponential: their shares are uniform over all that sum to 1
    weights *= share / weights.sum() if weights.any() else 0
    mixed = (1 - share) * pixels.astype(np.float32)
    for weight, own in zip(weights, numbers[1 + _WIDTH :].reshape(_WIDTH, -1), strict=True):
        mixed += weight * _chain(pixels, own)
    out: NDArray[np.uint8] = np.clip(mixed, 0, 255).astype(np.uint8)
    return out


def _chain(pixels: NDArray[np.uint8], numbers: NDArray[np.float32]) -> NDArray[np.uint8]:
    depth = 1 + int(numbers[0] * _DEPTH)
    for which, step, side in numbers[1 : 1 + 3 * depth].reshape(depth, 3):
        operation = OPERATIONS[int(which * len(OPERATIONS))]
        pixels = apply(pixels, operation, int(step * _SEVERITY), -1 if side < 0.5 else 1)
    return pixels


def draws(seed: int, use: str, count: int) -> NDArray[np.float32]:
    """Uniform numbers [count] in [0, 1); those of another use of the same seed are independent of them."""
    numbers: NDArray[np.float32] = uniform(picture_keys(use, [seed], "perturb"), (count,))[0]
    return numbers
