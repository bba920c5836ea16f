"""Choices that must be made before numpy is loaded."""

from __future__ import annotations

import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

__all__ = ["prefer_fast_sort"]


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
