"""Motion blur: every pixel is a weighted mean along a path that starts there, at an angle of the picture's own.

    out(p) = Σ_t w(t) x(p + t·u) / Σ_t w(t)      w(t) = exp(-t² / 2σ²), 0 ≤ t ≤ 2·radius
u points to the right, turned by an angle that is uniform from -45 to 45 degrees. The path is one-sided, as that of
ImageMagick is, which Hendrycks' code calls. Radius and sigma are pixels of a picture of the set's own side and scale
with the shorter side; t goes in steps of one such pixel, or of the picture's own where these are finer. Beyond the
border the picture goes on with its last row or column.

Differs from ImageMagick: a point of the path that lies between pixels is interpolated (along the path between whole
columns, there between two rows), where that one takes the nearest pixel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smelt.tasks.corruptions.numerics import to_bytes, uniform
from smelt.tasks.corruptions.parameters import Trail

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["motion_blur"]


def motion_blur(pictures: NDArray[np.uint8], keys: NDArray[np.uint64], trail: Trail, side: int) -> NDArray[np.uint8]:
    """Blur each picture along its own direction; the lengths of `trail` are for pictures of this side."""
    n, height, width, _ = pictures.shape
    scale = min(height, width) / side
    length, sigma = 2 * trail.radius * scale, trail.sigma * scale
    angles = np.pi / 2 * (uniform(keys).astype(np.float64) - 0.5)
    slopes, weights = np.tan(angles), _column_weights(np.cos(angles), length, sigma, min(1.0, scale))
    margin = weights.shape[1]  # a path is no steeper than a diagonal, so it stays within
    padded = np.pad(pictures, ((0, 0), (margin, margin), (0, margin), (0, 0)), mode="edge")
    rows = padded.reshape(n * (height + 2 * margin), -1)  # one line of bytes each: a path's step is whole rows
    first = (np.arange(n) * (height + 2 * margin) + margin)[:, None] + np.arange(height)
    values = np.zeros((n, height, width * 3), dtype=np.float32)
    for step in range(margin):
        columns = rows[:, 3 * step : 3 * (step + width)]
        above = np.floor(step * slopes)
        below_share = step * slopes - above
        here = first + above.astype(np.int64)[:, None]
        for lines, share in ((here, 1 - below_share), (here + 1, below_share)):
            amount = (weights[:, step] * share).astype(np.float32)
            if amount.any():
                values += columns[lines] * amount[:, None, None]
    return to_bytes(values).reshape(pictures.shape)


def _column_weights(cosines: NDArray[np.float64], length: float, sigma: float, unit: float) -> NDArray[np.float64]:
    """What each whole column that a path crosses gets of the path's weight, [n, columns]; the sum is 1."""
    distances = np.arange(int(length / unit + 1e-9) + 1) * unit
    weights = np.exp(-0.5 * (distances / sigma) ** 2)
    columns = np.arange(int(length) + 2)
    out = np.zeros((len(cosines), len(columns)))
    for distance, weight in zip(distances, weights / weights.sum(), strict=True):
        out += weight * np.maximum(0, 1 - np.abs((distance * cosines)[:, None] - columns))
    return out
