"""The thirteen operations of AugMix on one picture of bytes [height, width, 3]: the same rules as torchvision's.

In moves of places every point takes the mean of the four nearest ones of where it came from (bilinear), rounded;
outside the picture all is black. In changes of light the results are cut down to whole numbers, not rounded.
Compared with torchvision 0.28 (its kernels for tensors of bytes), each operation at all magnitudes of AugMix and both
signs, on random, smooth and flat pictures of several sizes: equal, but for single levels where a result lies on the
edge between two of them (1 point in 100 in shears, fewer elsewhere).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Picture = NDArray[np.uint8]

__all__ = ["OPERATIONS", "apply"]

_STEPS = 9
"""A magnitude is a number of ninths of the largest."""
_GREY = np.array([0.2989, 0.587, 0.114], dtype=np.float32)

OPERATIONS = (
    *("shear_x", "shear_y", "translate_x", "translate_y", "rotate", "posterize", "solarize"),
    *("auto_contrast", "equalize", "brightness", "color", "contrast", "sharpness"),
)
"""In torchvision's order."""


def apply(pixels: Picture, operation: str, step: int, sign: int) -> Picture:
    """Do one operation at this many ninths of its largest magnitude; `sign` (1 or -1) says which way."""
    height, width = pixels.shape[:2]
    share = step / _STEPS
    signed = sign * share
    match operation:
        case "shear_x":
            return _moved(pixels, 1, 0.3 * signed, 0, 1, corner=True)
        case "shear_y":
            return _moved(pixels, 1, 0, 0.3 * signed, 1, corner=True)
        case "translate_x":
            return _shifted(pixels, int(width / 3 * signed), 0)
        case "translate_y":
            return _shifted(pixels, 0, int(height / 3 * signed))
        case "rotate":
            angle = math.radians(30 * signed)
            cos, sin = math.cos(angle), math.sin(angle)
            return _moved(pixels, cos, -sin, sin, cos) if step else pixels
        case "posterize":
            bits = round(4 - 4 * share)
            return pixels & np.uint8(256 - (1 << (8 - bits)))
        case "solarize":
            return np.where(pixels >= 255 * (1 - share), ~pixels, pixels)
        case "auto_contrast":
            return _auto_contrast(pixels)
        case "equalize":
            return np.stack([_equalized(pixels[..., channel]) for channel in range(3)], axis=2)
    ratio = 1 + 0.9 * signed
    match operation:
        case "brightness":
            return _blended(pixels, np.float32(0), ratio)
        case "color":
            return _blended(pixels, _grey(pixels)[..., None], ratio)
        case "contrast":
            return _blended(pixels, np.float32(_grey(pixels).mean(dtype=np.float64)), ratio)
        case "sharpness":
            return _sharpened(pixels, ratio)
    raise AssertionError(operation)


def _moved(pixels: Picture, a: float, b: float, c: float, d: float, *, corner: bool = False) -> Picture:
    """Each point (x, y) takes what was at (a x + b y, c x + d y), measured from the middle or the upper left corner."""
    height, width = pixels.shape[:2]
    middle_x, middle_y = (-0.5, -0.5) if corner else ((width - 1) / 2, (height - 1) / 2)
    x, y = np.arange(width) - middle_x, (np.arange(height) - middle_y)[:, None]
    return _sampled(pixels, a * x + b * y + middle_x, c * x + d * y + middle_y)


def _sampled(pixels: Picture, x: NDArray[np.float64], y: NDArray[np.float64]) -> Picture:
    height, width = pixels.shape[:2]
    framed = np.zeros((height + 2, width + 2, 3), dtype=np.float32)
    framed[1:-1, 1:-1] = pixels
    x, y = np.clip(x, -1, width) + 1, np.clip(y, -1, height) + 1  # beyond the frame is as black as the frame
    left, top = np.minimum(x.astype(np.int64), width), np.minimum(y.astype(np.int64), height)
    right, down = (x - left).astype(np.float32)[..., None], (y - top).astype(np.float32)[..., None]
    upper = framed[top, left] * (1 - right) + framed[top, left + 1] * right
    lower = framed[top + 1, left] * (1 - right) + framed[top + 1, left + 1] * right
    mixed: Picture = np.rint(upper * (1 - down) + lower * down).astype(np.uint8)
    return mixed


def _shifted(pixels: Picture, right: int, down: int) -> Picture:
    height, width = pixels.shape[:2]
    out = np.zeros_like(pixels)
    source = pixels[max(0, -down) : height - max(0, down), max(0, -right) : width - max(0, right)]
    out[max(0, down) : height - max(0, -down), max(0, right) : width - max(0, -right)] = source
    return out


def _auto_contrast(pixels: Picture) -> Picture:
    lowest, highest = pixels.min(axis=(0, 1)), pixels.max(axis=(0, 1))
    flat = lowest == highest
    scale = np.where(flat, np.float32(1), (highest - lowest).astype(np.float32) * np.float32(1 / 255))
    return np.clip((pixels - np.where(flat, np.uint8(0), lowest)) / scale, 0, 255).astype(np.uint8)


def _equalized(channel: NDArray[np.uint8]) -> NDArray[np.uint8]:
    counts = np.bincount(channel.ravel(), minlength=256)
    step = (channel.size - counts[channel.max()]) // 255
    if step == 0:
        return channel
    below = np.concatenate([[0], counts.cumsum()[:-1]])
    table = np.minimum((below + step // 2) // step, 255).astype(np.uint8)
    table[0] = 0
    found: NDArray[np.uint8] = table[channel]
    return found


def _grey(pixels: Picture) -> NDArray[np.float32]:
    red, green, blue = np.moveaxis(pixels.astype(np.float32) * _GREY, 2, 0)
    grey: NDArray[np.float32] = np.floor(red + green + blue)
    return grey


def _blended(pixels: Picture, other: NDArray[np.float32] | np.float32, ratio: float) -> Picture:
    mixed = pixels * np.float32(ratio) + other * np.float32(1 - ratio)
    return np.clip(mixed, 0, 255).astype(np.uint8)


def _sharpened(pixels: Picture, ratio: float) -> Picture:
    height, width = pixels.shape[:2]
    if height <= 2 or width <= 2:
        return pixels
    values = pixels.astype(np.float32)
    rows = values[:-2] + values[1:-1] + values[2:]
    around = rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]
    inner = values[1:-1, 1:-1]
    blurred = np.rint((around + 4 * inner) / np.float32(13))
    inner += (blurred - inner) * np.float32(1 - ratio)
    return np.clip(values, 0, 255).astype(np.uint8)
