"""The golden pictures: three clean ones, and what every kind makes of them at two severities by both sets.

`python golden_corruptions.py` writes the sheet again, after a change that is meant to change pixels.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from smelt.tasks.corruptions.corrupt import corrupt
from smelt.tasks.corruptions.parameters import KINDS, PARAMETER_SETS

DATA = Path(__file__).parents[2] / "data" / "corruptions"
PLACE = "golden/test"
SIDE = 32
SHOWN = (3, 5)
"""Severities: water and mud are both among them."""


def clean() -> np.ndarray:
    """A drawn picture, a shirt and a sketch: [3, 32, 32, 3]."""
    return _tiles(DATA / "clean.png").reshape(-1, SIDE, SIDE, 3)


def expected() -> dict[tuple[str, str, int], np.ndarray]:
    """By set, kind and severity: [3, 32, 32, 3]."""
    sheet = _tiles(DATA / "corrupted.png")
    cells = sheet.reshape(len(PARAMETER_SETS), len(KINDS), len(SHOWN), -1, SIDE, SIDE, 3)
    return {
        (name, kind, severity): cells[i, j, k]
        for i, name in enumerate(PARAMETER_SETS)
        for j, kind in enumerate(KINDS)
        for k, severity in enumerate(SHOWN)
    }


def made(name: str, kind: str, severity: int) -> np.ndarray:
    """What the code makes of the clean pictures now."""
    pictures = clean()
    return corrupt(pictures, kind, severity, indices=range(len(pictures)), place=PLACE, parameters=name)


def drawn() -> np.ndarray:
    """A picture with slopes of colour, a bright disc with a sharp edge and a chequered corner."""
    y, x = np.mgrid[:SIDE, :SIDE]
    picture = np.stack([60 + 5 * x, 40 + 4 * y, 200 - 3 * x - 2 * y], axis=2)
    picture[(x - 12) ** 2 + (y - 12) ** 2 < 64] = (240, 220, 60)
    corner = (x > 20) & (y > 20)
    picture[corner] = np.where((x + y) % 4 < 2, 20, 235)[corner][:, None]
    return picture.astype(np.uint8)


def draw_sheet() -> np.ndarray:
    """A row per set and kind; across it the severities, each with the three pictures."""
    rows = [
        np.concatenate([*np.concatenate([made(name, kind, severity) for severity in SHOWN])], axis=1)
        for name in PARAMETER_SETS
        for kind in KINDS
    ]
    return np.concatenate(rows)


def _tiles(path: Path) -> np.ndarray:
    pixels = np.asarray(Image.open(path))
    rows, columns = pixels.shape[0] // SIDE, pixels.shape[1] // SIDE
    return pixels.reshape(rows, SIDE, columns, SIDE, 3).swapaxes(1, 2)


if __name__ == "__main__":
    Image.fromarray(draw_sheet()).save(DATA / "corrupted.png", optimize=True)
