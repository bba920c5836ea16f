"""The compiled vector machine, if it is there.

It is an optional part of the installation: without a C compiler Smelt installs too, and merges more slowly. Set
SMELT_FUSED=0 to run without it.
"""

from __future__ import annotations

import ctypes
import os
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

__all__ = ["library"]


@cache
def library() -> ctypes.CDLL | None:
    """The library with its functions `smelt_run` and those around it, or None."""
    if os.environ.get("SMELT_FUSED") == "0":
        return None
    here = Path(__file__).parent
    path = next((file for suffix in EXTENSION_SUFFIXES if (file := here / f"_machine{suffix}").is_file()), None)
    if path is None:
        return None
    try:
        found = ctypes.CDLL(str(path))
        run, run_files, run_jobs = found.smelt_run, found.smelt_run_files, found.smelt_run_jobs
        read_pieces = found.smelt_read_pieces
    except (OSError, AttributeError):  # made for another system
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    run.argtypes = [pointer, number, pointer, pointer, number, pointer, number, number, number]
    run_files.argtypes = [pointer, number, pointer, number, *run.argtypes[3:], number]
    run_jobs.argtypes = [pointer, number, pointer, pointer]
    read_pieces.argtypes = [*[number] * 6, pointer]
    run.restype = run_files.restype = run_jobs.restype = read_pieces.restype = number
    return found
