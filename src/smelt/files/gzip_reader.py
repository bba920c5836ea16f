"""Packed texts (.gz), unpacked within bounds: a few bytes can stand for any number of them."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

from smelt.errors import CorruptFile, shortened

__all__ = ["unpacked"]

_TIMES, _LEAST = 100, 64 << 20
"""How many times its size a file may unpack to, and what any may: a text shrinks to a tenth, a bomb to a thousandth."""


def unpacked(packed: bytes, where: str | Path) -> bytes:
    """What a .gz file holds; `where` is what errors begin with."""
    most = max(_TIMES * len(packed), _LEAST)
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            content = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise CorruptFile(f"{shortened(str(where))}: cannot be unpacked ({error})") from None
    if len(content) > most:
        raise CorruptFile(f"{shortened(str(where))}: unpacks to more than {most:,} bytes, as no text does")
    return content
