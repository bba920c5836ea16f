"""Choices that must be made before numpy is loaded."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["let_idle_threads_sleep", "prefer_fast_sort"]


def let_idle_threads_sleep() -> None:
    """Have the threads of numpy's OpenBLAS sleep when they have nothing to do.

    It starts them when numpy is loaded, and each looks for work for a tenth of a second before it sleeps: time that a
    merge would use. The number is a power of two of tries; what a user has set stays.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


def prefer_fast_sort() -> None:
    """Have numpy sort with AVX2 on AMD: its AVX-512 sort takes three times as long on Zen 4 (docs/log.md).

    The switch has this name from numpy 2.4 on; what a user has set stays.
    """
    try:
        new_names = tuple(map(int, version("numpy").split(".")[:2])) >= (2, 4)
        amd = "AuthenticAMD" in Path("/proc/cpuinfo").read_text()[:2000]
    except (OSError, ValueError, PackageNotFoundError):
        return
    if new_names and amd:
        os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", "X86_V4")
