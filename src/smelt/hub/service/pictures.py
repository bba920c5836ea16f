"""Pictures that people send, decoded with bounds: bytes, pixels and formats; and thumbnails of the graph's pictures."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from smelt.hub.service.problems import Refused
from smelt.tasks.pictures.mosaic import pillow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.hub.service.settings import Settings

__all__ = ["FORMATS", "decode", "encode", "groups", "preview", "smaller"]

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_THUMB = 96
_SIDE = 2048
_PREVIEW = 160
_AT_ONCE = 8_000_000
"""Pixels that are decoded at one time, where one picture alone has not more."""


def groups(sent: Sequence[tuple[str, bytes]], settings: Settings) -> list[list[tuple[str, bytes]]]:
    """Pictures in groups that are small when decoded. All are judged by their headers first, none is decoded."""
    found: list[list[tuple[str, bytes]]] = []
    total = room = 0
    for name, data in sent:
        with _opened(name, data, settings) as picture:
            pixels = picture.width * picture.height
        total += pixels
        if total > settings.request_pixels:
            most = settings.request_pixels / 1e6
            raise Refused(413, f"the pictures have more than {most:,.0f} million pixels together; send fewer at a time")
        if not found or pixels > room:
            found.append([])
            room = _AT_ONCE
        found[-1].append((name, data))
        room -= pixels
    return found


def decode(name: str, data: bytes, settings: Settings) -> Any:
    """One picture as PIL RGB, no larger than 2048 pixels on a side; refused by its size before it is decoded."""
    with _opened(name, data, settings) as picture:
        picture.draft("RGB", (_SIDE, _SIDE))
        return _upright(picture)


@contextmanager
def _opened(name: str, data: bytes, settings: Settings) -> Iterator[Any]:
    """A picture of which only the header is read; every fault from there on is told in words."""
    image = pillow()
    if not data:
        raise Refused(400, f"{name!r} is empty; send a picture ({', '.join(FORMATS)})")
    if len(data) > settings.picture_bytes:
        raise Refused(413, f"{name!r} is larger than {settings.picture_bytes / 1e6:,.0f} MB; send a smaller picture")
    most = f"at most {settings.picture_pixels / 1e6:,.0f} million are taken; send a smaller picture"
    try:
        with image.open(io.BytesIO(data), formats=FORMATS) as opened:
            width, height = opened.size
            if width * height > settings.picture_pixels:
                raise Refused(413, f"{name!r} has {width:,} × {height:,} pixels; {most}")
            yield opened
    except image.DecompressionBombError:
        raise Refused(413, f"{name!r} has far too many pixels; {most}") from None
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError):
        raise Refused(400, f"{name!r} cannot be read as a picture; send one of {', '.join(FORMATS)}") from None


def encode(pixels: NDArray[np.uint8]) -> bytes:
    """A picture of the graph as a small webp."""
    picture = pillow().fromarray(pixels)
    picture.thumbnail((_THUMB, _THUMB))
    buffer = io.BytesIO()
    picture.save(buffer, "WEBP", quality=90, method=4)
    return buffer.getvalue()


def preview(picture: Any) -> str:
    """A picture that was sent, small, as an address that holds it: nothing of it is kept on the server."""
    import base64

    buffer = io.BytesIO()
    smaller(picture).save(buffer, "WEBP", quality=80)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def smaller(picture: Any) -> Any:
    """What is kept of a picture to be shown."""
    small = picture.copy()
    small.thumbnail((_PREVIEW, _PREVIEW))
    return small


def _upright(opened: Any) -> Any:
    """In RGB on white, turned as the camera was held; made smaller first, so that there is one large copy at most."""
    from PIL import ImageOps

    wanted = "RGBA" if opened.mode in ("RGBA", "LA", "PA") or "transparency" in opened.info else "RGB"
    picture = opened if opened.mode == wanted else opened.convert(wanted)
    picture.thumbnail((_SIDE, _SIDE))
    picture = ImageOps.exif_transpose(picture)
    if wanted == "RGB":
        return picture
    return pillow().alpha_composite(pillow().new("RGBA", picture.size, "white"), picture).convert("RGB")
