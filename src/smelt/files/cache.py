"""Where Smelt keeps what it can make again. Losing it costs time only."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """$SMELT_CACHE, else smelt/ in the user's cache folder. It need not exist yet."""
    usual = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "smelt")
    return Path(os.environ.get("SMELT_CACHE") or usual)
