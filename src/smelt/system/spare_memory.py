"""How much memory this machine can spare for sums. No number depends on it, only how much is done at once."""

from __future__ import annotations

import os

__all__ = ["spare_bytes"]

_LEAST = 1 << 30


def spare_bytes() -> int:
    """A quarter of what is free now, at least 1 GiB; 2 GiB where the system does not say."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 2 * _LEAST
    return max(_LEAST, free // 4)
