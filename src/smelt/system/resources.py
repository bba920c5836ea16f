"""What this process may use of the machine. No number depends on it, only how much is done at once."""

from __future__ import annotations

import os

__all__ = ["spare_memory", "usable_cores"]

_LEAST = 1 << 30


def usable_cores() -> int:
    """Cores: those of the machine, or fewer where the process is bound to some of them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def spare_memory() -> int:
    """Bytes for sums: a quarter of what is free now, at least 1 GiB; 2 GiB where the system does not say."""
    try:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 2 * _LEAST
    return max(_LEAST, free // 4)
