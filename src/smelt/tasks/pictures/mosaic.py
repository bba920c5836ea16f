"""Mosaics: many small pictures of one size as the tiles of one large picture, 100 in a row, row after row.

A codec for pictures packs thousands of thumbnails better so than one by one. The number of pictures is not in the
file: it is the number of labels. What is left of the last row is padding.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, MissingExtra, shortened
from smelt.files.reading import is_there, read_bytes
from smelt.tasks.task import TaskError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["PER_ROW", "opened_picture", "pillow", "read_mosaic", "read_picture", "write_mosaic"]

PER_ROW = 100
_MOST_BYTES = 1 << 30
"""Of one picture file."""


def read_mosaic(path: Path, n: int, size: int) -> NDArray[np.uint8]:
    """The pictures of a mosaic, as [n, size, size, 3]."""
    import numpy as np

    rows = -(-n // PER_ROW)
    wanted = (PER_ROW * size, rows * size)
    if not is_there(path):
        raise TaskError(f"{shortened(str(path))}: the mosaic is not there")
    with opened_picture(path) as mosaic:
        if mosaic.size != wanted:
            raise TaskError(
                f"{path}: {n} pictures of {size}×{size} make a mosaic of {wanted[0]}×{wanted[1]}, "
                f"but it is {mosaic.size[0]}×{mosaic.size[1]}; the size or the labels do not belong to it"
            )
        pixels = np.asarray(mosaic.convert("RGB"))
    tiles = pixels.reshape(rows, size, PER_ROW, size, 3).swapaxes(1, 2)
    return np.ascontiguousarray(tiles.reshape(-1, size, size, 3)[:n])


def write_mosaic(path: Path, pictures: NDArray[np.uint8], **options: Any) -> None:
    """Pack pictures [n, size, size, 3]; `options` go to Pillow (`quality=95`); lossless without any."""
    import numpy as np

    n, size = len(pictures), pictures.shape[1]
    rows = -(-n // PER_ROW)
    tiles = np.zeros((rows * PER_ROW, size, size, 3), dtype=np.uint8)
    tiles[:n] = pictures
    pixels = tiles.reshape(rows, PER_ROW, size, size, 3).swapaxes(1, 2).reshape(rows * size, PER_ROW * size, 3)
    pillow().fromarray(pixels).save(path, **(options or {"lossless": True}))


@contextmanager
def opened_picture(path: Path) -> Iterator[Any]:
    """A picture file, open in Pillow; whatever keeps it from being read is one error that names it."""
    image = pillow()
    content = read_bytes(path, _MOST_BYTES)
    try:
        # From memory: of a file Pillow would ask for as many bytes as a damaged chunk claims to have, up to 4 GB.
        with image.open(io.BytesIO(content)) as picture:
            yield picture
    except (OSError, SyntaxError, ValueError, image.DecompressionBombError) as error:
        raise CorruptFile(f"{path}: cannot be read as a picture ({error})") from None


def read_picture(path: Path) -> NDArray[np.uint8]:
    """A picture file as [height, width, 3]."""
    import numpy as np

    with opened_picture(path) as picture:
        return np.asarray(picture.convert("RGB"))


def pillow() -> Any:
    """`PIL.Image`, or what to install."""
    try:
        from PIL import Image
    except ImportError:
        raise MissingExtra("reading pictures needs Pillow: pip install 'smelt[clip]'") from None
    return Image
