from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from smelt.errors import CorruptFile
from smelt.tasks.pictures.mosaic import read_mosaic, write_mosaic
from smelt.tasks.task import TaskError


def numbered(n: int, size: int = 2) -> np.ndarray:
    """Picture i is all i."""
    return np.broadcast_to(np.arange(n, dtype=np.uint8)[:, None, None, None], (n, size, size, 3)).copy()


@pytest.mark.parametrize("n", [1, 99, 100, 101, 250])
def test_pictures_come_back_in_their_order(tmp_path: Path, n: int) -> None:
    write_mosaic(tmp_path / "m.webp", numbered(n))
    assert np.array_equal(read_mosaic(tmp_path / "m.webp", n, 2), numbered(n))


def test_the_layout_is_a_hundred_in_a_row(tmp_path: Path) -> None:
    write_mosaic(tmp_path / "m.png", numbered(102), compress_level=1)
    pixels = np.asarray(Image.open(tmp_path / "m.png"))
    assert pixels.shape == (4, 200, 3)
    assert pixels[0, 198, 0] == 99  # the last of the first row
    assert pixels[2, 2, 0] == 101  # the second of the second row
    assert pixels[2, 4, 0] == 0  # padding


def test_a_grey_mosaic_is_read_as_rgb(tmp_path: Path) -> None:
    Image.fromarray(np.full((2, 200), 7, dtype=np.uint8)).save(tmp_path / "m.png")
    assert np.array_equal(read_mosaic(tmp_path / "m.png", 3, 2), np.full((3, 2, 2, 3), 7))


@pytest.mark.parametrize(("n", "size"), [(101, 2), (100, 4), (100, 1)])
def test_another_size_or_number_is_refused(tmp_path: Path, n: int, size: int) -> None:
    write_mosaic(tmp_path / "m.png", numbered(100), compress_level=1)
    with pytest.raises(TaskError, match=rf"{n} pictures of {size}×{size} make a mosaic of .* but it is 200×2"):
        read_mosaic(tmp_path / "m.png", n, size)


def test_a_missing_mosaic_is_named(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"gone\.webp: the mosaic is not there"):
        read_mosaic(tmp_path / "gone.webp", 1, 2)


@pytest.mark.parametrize("keep", [0, 10, 200])
def test_a_damaged_mosaic_is_named(tmp_path: Path, keep: int) -> None:
    draw = np.random.default_rng(0)
    write_mosaic(tmp_path / "m.png", draw.integers(0, 255, (200, 8, 8, 3)).astype(np.uint8), compress_level=1)
    path = tmp_path / "m.png"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CorruptFile, match=r"m\.png: cannot be read as a picture"):
        read_mosaic(path, 200, 8)
