"""Compiled parts of Smelt, where they are there.

They are optional: without a C compiler Smelt installs too, and is slower. Set SMELT_FUSED=0 to run without them.
"""

from __future__ import annotations

import ctypes
import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

__all__ = ["native_library"]


def native_library(folder: Path, name: str) -> ctypes.CDLL | None:
    """The extension `name` that lies in `folder`; None where it was not built, or is not wanted."""
    if os.environ.get("SMELT_FUSED") == "0":
        return None
    path = next((file for suffix in EXTENSION_SUFFIXES if (file := folder / f"{name}{suffix}").is_file()), None)
    try:
        return None if path is None else ctypes.CDLL(str(path))
    except OSError:  # made for another system
        return None
