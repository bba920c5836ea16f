"""Keeping pages: glibc gives freed blocks back to the system at once, and a fresh page costs more than the arithmetic
on it, above all on virtual machines. Temporaries of a merge are a few megabytes and come again and again.
"""

from __future__ import annotations

import ctypes
import sys

__all__ = ["keep_pages"]

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


def keep_pages() -> None:
    """Have the C library re-use memory below 32 MB instead of returning it. Does nothing where there is no glibc."""
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, 32 << 20)
    mallopt(_TRIM_THRESHOLD, 1 << 30)
    mallopt(_TOP_PAD, 16 << 20)
