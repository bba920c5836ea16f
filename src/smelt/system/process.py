"""What this process may use of the machine, and settings of the libraries underneath it. No number depends on them.

Cores and free memory; Python's garbage collector; Smelt's compiled parts; threads of OpenBLAS, numpy's sort and the C
allocator.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

__all__ = [
    "gc_frozen",
    "gc_paused",
    "keep_freed_memory",
    "let_idle_threads_sleep",
    "native_library",
    "prefer_fast_sort",
    "spare_memory",
    "usable_cores",
]

_LEAST = 1 << 30
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3
"""Parameters of glibc's mallopt."""


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


@contextmanager
def gc_paused() -> Iterator[None]:
    """Collect no cycles in here: for what makes many objects that stay, and does not take long.

    What a plan is made of has no cycles and lives until the run ends; looking through it again and again took a quarter
    of the time.
    """
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@contextmanager
def gc_frozen() -> Iterator[None]:
    """Do not look at what there is already; new cycles are collected."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def native_library(folder: Path, name: str) -> ctypes.CDLL | None:
    """The compiled library `name` that lies in `folder`; None where it was not built, or is not wanted.

    They are optional: without a C compiler Smelt installs too, and is slower. SMELT_FUSED=0 runs without them.
    """
    import ctypes

    if os.environ.get("SMELT_FUSED") == "0":
        return None
    try:
        return ctypes.CDLL(str(folder / f"{name}.ctypes.{'dll' if os.name == 'nt' else 'so'}"))
    except OSError:  # it is not there, or made for another system
        return None


def let_idle_threads_sleep() -> None:
    """Have the threads of numpy's OpenBLAS sleep when they have nothing to do. To be called before numpy is loaded.

    It starts them when numpy is loaded, and each looks for work for a tenth of a second before it sleeps: time that a
    merge would use. The number is a power of two of tries; what a user has set stays.
    """
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")


def prefer_fast_sort() -> None:
    """Have numpy sort with AVX2 on AMD: its AVX-512 sort takes three times as long on Zen 4 (docs/explanation/log.md).

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
