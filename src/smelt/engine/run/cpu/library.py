"""The compiled vector machine (machine.c), if it is there."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from smelt.system.native import native_library

__all__ = ["library"]


@cache
def library() -> ctypes.CDLL | None:
    """The library with its functions `smelt_run` and those around it, or None."""
    found = native_library(Path(__file__).parent, "_machine")
    if found is None:
        return None
    try:
        run, run_files, run_jobs = found.smelt_run, found.smelt_run_files, found.smelt_run_jobs
        read_pieces = found.smelt_read_pieces
    except AttributeError:  # made by another version of Smelt
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    run.argtypes = [pointer, number, pointer, pointer, number, pointer, number, number, number]
    run_files.argtypes = [pointer, number, pointer, number, *run.argtypes[3:], number]
    run_jobs.argtypes = [pointer, number, pointer, pointer]
    read_pieces.argtypes = [*[number] * 6, pointer]
    run.restype = run_files.restype = run_jobs.restype = read_pieces.restype = number
    return found
