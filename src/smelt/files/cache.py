"""Where Smelt keeps what it can make again. Losing it costs time only."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from smelt.errors import OutputError
from smelt.files.atomic import write_file

__all__ = ["cache_folder", "write_cached"]


def cache_folder() -> Path:
    """$SMELT_CACHE, else smelt/ in the user's cache folder. It need not exist yet."""
    usual = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "smelt")
    return Path(os.environ.get("SMELT_CACHE") or usual)


def write_cached(path: Path, content: str | bytes) -> None:
    """Write a file of the cache, whole; where that fails it is not remembered, which is no error."""
    with contextlib.suppress(OutputError):
        write_file(path, content, durable=False)
