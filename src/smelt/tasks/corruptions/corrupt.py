"""Corrupt: pictures of one size, a kind and a severity in, the same pictures after it out.

The short kinds are here; `motion_blur.py` and `spatter.py` have a file each. Each takes bytes [n, height, width, 3].
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import RecipeError
from smelt.tasks.corruptions.corruption import Corruption
from smelt.tasks.corruptions.motion_blur import motion_blur
from smelt.tasks.corruptions.numerics import normal, picture_keys, to_bytes, uniform
from smelt.tasks.corruptions.parameters import PARAMETER_SETS, CorruptionKind, SetName
from smelt.tasks.corruptions.spatter import spatter
from smelt.tasks.pictures.mosaic import pillow

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["corrupt"]

_AT_ONCE = 1 << 17
"""Pixels: few enough that the numbers of a step stay in the processor's cache, whatever the number of pictures."""


def corrupt(
    pictures: NDArray[np.uint8],
    kind: CorruptionKind,
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
    pictures: NDArray[np.uint8], keys: NDArray[np.uint64], kind: CorruptionKind, severity: int, parameters: SetName
) -> NDArray[np.uint8]:
    numbers, at = PARAMETER_SETS[parameters], severity - 1
    match kind:
        case "motion_blur":
            return motion_blur(pictures, keys, numbers.motion_blur[at], numbers.side)
        case "impulse_noise":
            return _impulse_noise(pictures, keys, numbers.impulse_noise[at])
        case "gaussian_noise":
            return _gaussian_noise(pictures, keys, numbers.gaussian_noise[at])
        case "pixelate":
            return _pixelate(pictures, numbers.pixelate[at])
        case "spatter":
            return spatter(pictures, keys, numbers.spatter[at], numbers.side)
        case "contrast":
            return _contrast(pictures, numbers.contrast[at])
        case "jpeg":
            return _jpeg(pictures, numbers.jpeg[at])


def _impulse_noise(pictures: NDArray[np.uint8], keys: NDArray[np.uint64], share: float) -> NDArray[np.uint8]:
    """Salt and pepper: a share of the numbers become 0 or 255, half each, every channel by its own chance."""
    chance = uniform(keys, pictures.shape[1:])
    out = np.where(chance < share / 2, np.uint8(0), pictures)
    return np.where(chance >= 1 - share / 2, np.uint8(255), out)


def _gaussian_noise(pictures: NDArray[np.uint8], keys: NDArray[np.uint64], sigma: float) -> NDArray[np.uint8]:
    """Add normal noise of standard deviation `sigma`, where white is 1; what leaves the range is cut."""
    values = normal(keys, pictures.shape[1:])
    values *= np.float32(255 * sigma)
    values += pictures
    return to_bytes(values)


def _pixelate(pictures: NDArray[np.uint8], share: float) -> NDArray[np.uint8]:
    """A smaller picture of block means, drawn at the old size again; the blocks are a share of the picture.

    It has ⌊share · side⌋ blocks a side, at least one; Pillow's box filter makes it and enlarges it, as in Hendrycks'
    code.
    """
    image = pillow()
    box = image.Resampling.BOX
    height, width = pictures.shape[1:3]
    blocks = max(1, int(width * share)), max(1, int(height * share))
    out = np.empty_like(pictures)
    for number, picture in enumerate(pictures):
        out[number] = np.asarray(image.fromarray(picture).resize(blocks, box).resize((width, height), box))
    return out


def _contrast(pictures: NDArray[np.uint8], share: float) -> NDArray[np.uint8]:
    """Every channel moves towards its own mean over the picture: out = mean + share · (x - mean)."""
    pixels = pictures.shape[1] * pictures.shape[2]
    totals = pictures.sum(axis=(1, 2), dtype=np.int64, keepdims=True)  # whole numbers: no order of adding matters
    means = (totals / pixels).astype(np.float32)
    values = pictures - means
    values *= np.float32(share)
    values += means
    return to_bytes(values)


def _jpeg(pictures: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """Written at this quality (1 to 95) and read again, by Pillow with its usual settings (4:2:0), as in ImageNet-C."""
    image = pillow()
    out = np.empty_like(pictures)
    for number, picture in enumerate(pictures):
        file = io.BytesIO()
        image.fromarray(picture).save(file, "JPEG", quality=quality)
        out[number] = np.asarray(image.open(file))
    return out
