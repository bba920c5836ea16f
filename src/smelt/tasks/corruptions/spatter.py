"""Spatter: drops of water (severities 1 to 3) or mud (4 and 5) on the lens, found where blurred noise is high.

    layer = level + spread · blur(normal noise)      drop = layer > threshold
    water:  out = x + strength · light · turquoise       light: how a drop's surface faces the upper left, 0 to 1
    mud:    out = (1 - m) x + m · brown                  m = soften(drop), 0 where it is below 0.8
Hendrycks' parameters, colours and rule for mud. Differs from his code: light is the slope of the layer itself, as a
share of its typical slope and averaged over 3×3 pixels, where he embosses the distance to the drops' edges with
OpenCV and divides by the brightest point; and noise is drawn beyond the border, so that a drop is as likely there.

The drops are drawn on a grid of the set's own side (32 or 224), where all lengths are what they are meant to be, and
resized to the picture, so they cover the same share of any picture. Pictures of up to half that side get a grid of
half the side, at least 32; lengths then scale, and the spread so that as much lies above the threshold.
In `cifar_c` mud covers less (3 % and 5 %) than the water of severity 3 (32 %): its severities grow within each liquid,
but fall from the third to the fourth.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from smelt.tasks.corruptions.numerics import normal, to_bytes
from smelt.tasks.corruptions.parameters import Mud, Water
from smelt.tasks.pictures.mosaic import pillow

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["spatter"]

_TURQUOISE = np.array([175, 238, 238], dtype=np.float32)
_BROWN = np.array([63, 42, 20], dtype=np.float32)
_CORE = np.float32(0.8)
_SMALLEST_GRID = 32
_LIGHT = 1
"""Pixels to each side over which a slope is measured, and then averaged."""


def spatter(pictures: NDArray[np.uint8], keys: NDArray[np.uint64], drops: Water | Mud, side: int) -> NDArray[np.uint8]:
    """Spatter each picture with its own drops; the lengths of `drops` are for pictures of this side."""
    height, width = pictures.shape[1:3]
    shorter = min(height, width)
    grid = side if shorter > side / 2 else max(side // 2, _SMALLEST_GRID)
    shape = max(1, round(height * grid / shorter)), max(1, round(width * grid / shorter))
    values = pictures.astype(np.float32)
    if isinstance(drops, Water):
        light = _resized(_light(keys, shape, drops, grid / side), height, width)
        values += light[..., None] * (np.float32(drops.strength) * _TURQUOISE)
    else:
        cover = _resized(_mud(keys, shape, drops, grid / side), height, width)
        values += cover[..., None] * (_BROWN - values)
    return to_bytes(values)


def _light(keys: NDArray[np.uint64], shape: tuple[int, int], drops: Water, scale: float) -> NDArray[np.float32]:
    """How much light each point of the grid throws back, 0 to 1; 0 outside the drops."""
    margin = 2 * _LIGHT
    layer, bell = _layer(keys, shape, drops, scale, margin)
    slope = layer[:, 2 * _LIGHT :, 2 * _LIGHT :] - layer[:, : -2 * _LIGHT, : -2 * _LIGHT]
    alike = float(bell[2 * _LIGHT :] @ bell[: -2 * _LIGHT]) / float(bell @ bell)  # of neighbours so far apart
    typical = _spread(drops, scale) * float(bell @ bell) * math.sqrt(2 * (1 - alike**2))
    slope *= np.float32(1 / typical)
    np.clip(slope, 0, 1, out=slope)
    mean = np.full(2 * _LIGHT + 1, 1 / (2 * _LIGHT + 1), dtype=np.float32)
    light = _blurred(slope, mean)
    light *= layer[:, margin:-margin, margin:-margin] > drops.threshold
    return light


def _mud(keys: NDArray[np.uint64], shape: tuple[int, int], drops: Mud, scale: float) -> NDArray[np.float32]:
    """How much of each point of the grid is under mud: 0, or 0.8 to 1."""
    soft = _bell(drops.soften * scale)
    layer, _ = _layer(keys, shape, drops, scale, len(soft) // 2)
    cover = _blurred((layer > drops.threshold).astype(np.float32), soft)
    cover *= cover >= _CORE
    return cover


def _layer(
    keys: NDArray[np.uint64], shape: tuple[int, int], drops: Water | Mud, scale: float, margin: int
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """The liquid's height on the grid and a margin around it, and the bell that blurred it."""
    bell = _bell(drops.blur * scale)
    around = 2 * margin + len(bell) - 1
    layer = _blurred(normal(keys, (shape[0] + around, shape[1] + around)), bell)
    layer *= np.float32(_spread(drops, scale))
    layer += np.float32(drops.level)
    return layer, bell


def _spread(drops: Water | Mud, scale: float) -> float:
    """The spread of the noise that has, blurred on this grid, the spread that it is meant to have when blurred."""
    meant, here = _bell(drops.blur), _bell(drops.blur * scale)
    return drops.spread * float(meant @ meant) / float(here @ here)


def _bell(sigma: float) -> NDArray[np.float32]:
    """A normal density on whole numbers, to 3 sigma and at least one to each side, with the sum 1."""
    reach = max(1, math.ceil(3 * sigma))
    values = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    bell: NDArray[np.float32] = (values / values.sum()).astype(np.float32)
    return bell


def _blurred(values: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    """Weighted means of neighbours along both axes of [n, h, w]; the border, where some are missing, is cut off."""
    for _ in range(2):
        length = values.shape[1] - len(weights) + 1
        total = values[:, :length] * weights[0]
        spare = np.empty_like(total)
        for place, weight in enumerate(weights[1:], 1):
            total += np.multiply(values[:, place : place + length], weight, out=spare)
        values = np.ascontiguousarray(total.swapaxes(1, 2))  # now the other axis; after the second time as it was
    return values


def _resized(covers: NDArray[np.float32], height: int, width: int) -> NDArray[np.float32]:
    """The grid at the picture's size; a smaller one holds means."""
    if covers.shape[1:] == (height, width):
        return covers
    image = pillow()
    out = np.empty((len(covers), height, width), dtype=np.float32)
    for number, cover in enumerate(covers):
        out[number] = np.asarray(image.fromarray(cover).resize((width, height), image.Resampling.BILINEAR))
    return out
