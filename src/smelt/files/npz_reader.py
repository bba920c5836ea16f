"""Arrays as numpy packs them (.npz), read within bounds: plain numbers and texts of at most what the file can hold.

numpy's own reader makes room for whatever an array's head claims, and raises whatever its parts raise.
"""

from __future__ import annotations

import math
import re
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile
from smelt.files.reading import open_plain

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["read_npz"]

_END = ".npy"
_HEAD = re.compile(r"\{'descr': '([<>|][biufU]\d{1,9})', 'fortran_order': (True|False), 'shape': \(([\d, ]*)\), \}\s*")
_MOST_PACKED = 1100
"""How many times its bytes in the file an array can have: DEFLATE reaches 1,032."""


def read_npz(path: Path, what: str = "arrays") -> dict[str, NDArray[Any]]:
    """Every array of a file, by name; `what` it should hold is said where it cannot be read."""
    try:
        with open_plain(path) as file, zipfile.ZipFile(file) as archive:
            entries = [entry for entry in archive.infolist() if entry.filename.endswith(_END)]
            return {entry.filename.removesuffix(_END): _array(archive, entry) for entry in entries}
    except (OSError, ValueError, TypeError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise CorruptFile(f"{path}: cannot be read as {what} ({error})") from None


def _array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> NDArray[Any]:
    import numpy as np

    with archive.open(entry) as file:
        if file.read(8) != b"\x93NUMPY\x01\x00":
            raise ValueError(f"{entry.filename}: is no array of numpy's format 1.0")
        head = _HEAD.fullmatch(file.read(int.from_bytes(file.read(2), "little")).decode("latin-1"))
        if head is None:
            raise ValueError(f"{entry.filename}: is no array of plain numbers or texts")
        kind, shape = np.dtype(head[1]), tuple(int(size) for size in head[3].split(",") if size.strip())
        size = math.prod(shape) * kind.itemsize
        if size > _MOST_PACKED * entry.compress_size:
            raise ValueError(f"{entry.filename}: {shape} of {kind} is more than the file holds")
        content = file.read(size + 1)
    if len(content) != size:
        raise ValueError(f"{entry.filename}: has not the {size:,} bytes of {shape} of {kind}")
    return np.ndarray(shape, kind, bytearray(content), order="F" if head[2] == "True" else "C")
