"""Pictures that people send, decoded with bounds: bytes, pixels and formats; and thumbnails of the graph's pictures."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from smelt.evaluate.mosaic import pillow
from smelt.hub.service.problems import Refused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.hub.service.settings import Settings

__all__ = ["FORMATS", "decode", "encode", "preview"]

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_THUMB = 96
_SIDE = 2048


def decode(name: str, data: bytes, settings: Settings) -> Any:
    """One picture as PIL RGB, no larger than 2048 pixels on a side; refused by its size before it is decoded."""
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
            opened.draft("RGB", (_SIDE, _SIDE))
            picture = _upright(opened)
    except image.DecompressionBombError:
        raise Refused(413, f"{name!r} has far too many pixels; {most}") from None
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError):
        raise Refused(400, f"{name!r} cannot be read as a picture; send one of {', '.join(FORMATS)}") from None
    picture.thumbnail((_SIDE, _SIDE))
    return picture


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

    small = picture.copy()
    small.thumbnail((160, 160))
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=80)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode()


def _upright(opened: Any) -> Any:
    """In RGB on white, turned as the camera was held."""
    from PIL import ImageOps

    turned = ImageOps.exif_transpose(opened)
    if turned.mode in ("RGBA", "LA", "PA") or "transparency" in turned.info:
        turned = turned.convert("RGBA")
        white = pillow().new("RGBA", turned.size, "white")
        return pillow().alpha_composite(white, turned).convert("RGB")
    return turned.convert("RGB")
