"""Corrupt: pictures of one size, a kind and a severity in, the same pictures after it out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import RecipeError
from smelt.tasks.corruptions.contrast import contrast
from smelt.tasks.corruptions.corruption import Corruption
from smelt.tasks.corruptions.gaussian_noise import gaussian_noise
from smelt.tasks.corruptions.impulse_noise import impulse_noise
from smelt.tasks.corruptions.jpeg import jpeg
from smelt.tasks.corruptions.motion_blur import motion_blur
from smelt.tasks.corruptions.parameters import PARAMETER_SETS, Kind, SetName
from smelt.tasks.corruptions.pixelate import pixelate
from smelt.tasks.corruptions.places import picture_keys
from smelt.tasks.corruptions.spatter import spatter

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["corrupt"]

_AT_ONCE = 1 << 17
"""Pixels: few enough that the numbers of a step stay in the processor's cache, whatever the number of pictures."""


def corrupt(
    pictures: NDArray[np.uint8],
    kind: Kind,
    severity: int,
    *,
    indices: Sequence[int] | NDArray[np.int64],
    place: str,
    parameters: SetName = "cifar_c",
    seed: int = 0,
) -> NDArray[np.uint8]:
    """Corrupt pictures [n, height, width, 3].

    What is random depends on the place (task and split, `photos/test`), each picture's index there, the kind, the
    severity and the seed, and on nothing else: not on the other pictures, their number or their order.
    """
    Corruption(kind, severity, parameters, seed)  # refuses what there is not
    if pictures.dtype != np.uint8 or pictures.ndim != 4 or pictures.shape[3] != 3 or 0 in pictures.shape[1:]:
        given = f"{pictures.dtype} {list(pictures.shape)}"
        raise RecipeError(f"{kind}: pictures are bytes (uint8) [n, height, width, 3]; got {given}")
    if len(indices) != len(pictures):
        raise RecipeError(f"{kind}: {len(pictures)} pictures, but {len(indices)} indices; each has its own")
    keys = picture_keys(place, indices, f"{kind}@{severity}", seed)
    out = np.empty_like(pictures)
    step = max(1, _AT_ONCE // (pictures.shape[1] * pictures.shape[2]))
    for start in range(0, len(pictures), step):
        some = slice(start, start + step)
        out[some] = _some(pictures[some], keys[some], kind, severity, parameters)
    return out


def _some(
    pictures: NDArray[np.uint8], keys: NDArray[np.uint64], kind: Kind, severity: int, parameters: SetName
) -> NDArray[np.uint8]:
    numbers, at = PARAMETER_SETS[parameters], severity - 1
    match kind:
        case "motion_blur":
            return motion_blur(pictures, keys, numbers.motion_blur[at], numbers.side)
        case "impulse_noise":
            return impulse_noise(pictures, keys, numbers.impulse_noise[at])
        case "gaussian_noise":
            return gaussian_noise(pictures, keys, numbers.gaussian_noise[at])
        case "pixelate":
            return pixelate(pictures, numbers.pixelate[at])
        case "spatter":
            return spatter(pictures, keys, numbers.spatter[at], numbers.side)
        case "contrast":
            return contrast(pictures, numbers.contrast[at])
        case "jpeg":
            return jpeg(pictures, numbers.jpeg[at])
