"""Settings of the libraries underneath, for the whole process: threads of OpenBLAS, numpy's sort, the C allocator."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["keep_freed_memory", "let_idle_threads_sleep", "prefer_fast_sort"]

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3


def let_idle_threads_sleep() -> None:
    """Have the threads of numpy's OpenBLAS sleep when they have nothing to do. To be called before numpy is loaded.

    It starts them when numpy is loaded, and each looks for work for a tenth of a second before it sleeps: time that a
    merge would use. The number is a power of two of tries; what a user has set stays.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


def prefer_fast_sort() -> None:
    """Have numpy sort with AVX2 on AMD: its AVX-512 sort takes three times as long on Zen 4 (docs/log.md).

    To be called before numpy is loaded. The switch has this name from numpy 2.4 on; what a user has set stays.
    """
    from importlib.metadata import PackageNotFoundError, version

    try:
        new_names = tuple(map(int, version("numpy").split(".")[:2])) >= (2, 4)
        amd = "AuthenticAMD" in Path("/proc/cpuinfo").read_text()[:2000]
    except (OSError, ValueError, PackageNotFoundError):
        return
    if new_names and amd:
        os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V4")


def keep_freed_memory() -> None:
    """Have the C library re-use memory below 32 MB instead of returning it. Does nothing where there is no glibc.

    It gives freed blocks back to the system at once, and a fresh page costs more than the arithmetic on it, above all
    on virtual machines. Temporaries of a merge are a few megabytes and come again and again.
    """
    import ctypes

    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    mallopt(_MMAP_THRESHOLD, 32 << 20)
    mallopt(_TRIM_THRESHOLD, 1 << 30)
    mallopt(_TOP_PAD, 16 << 20)
