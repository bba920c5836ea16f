"""A file in memory without a descriptor: the mapping outlives the file's, so that a thousand may be open at once.

`mmap.mmap` keeps a descriptor of its own for each mapping; a process has 1,024 of them, often only 256.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import mmap
import os
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, SmeltError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["mapped_bytes", "too_many_files"]

_FAILED = ctypes.c_void_p(-1).value


def mapped_bytes(path: Path) -> NDArray[np.uint8]:
    """The bytes of a file, read where and when they are looked at. Gone when no array refers to them any more."""
    import numpy as np

    try:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            if not size:
                raise CorruptFile(f"{path}: cannot be opened (it is empty)")
            if not hasattr(mmap, "PROT_READ"):  # Windows, where a mapping needs no descriptor of the C library
                return np.memmap(path, np.uint8, "r")
            return np.asarray(_Mapping(descriptor, size))
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno in (errno.EMFILE, errno.ENFILE):
            raise too_many_files(path) from None
        raise CorruptFile(f"{path}: cannot be opened ({error.strerror})") from None


def too_many_files(path: Path) -> SmeltError:
    """What to say where the system opens no further file."""
    return SmeltError(
        f"{path}: cannot be opened, as this process has too many files open; allow it more (`ulimit -n 4096`)"
    )


class _Mapping:
    """Read-only memory that numpy looks at; unmapped with the last array."""

    def __init__(self, descriptor: int, size: int):
        address = _system().mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
        if address is None or address == _FAILED:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        weakref.finalize(self, _system().munmap, address, size).atexit = False
        self.__array_interface__ = {"data": (address, True), "shape": (size,), "typestr": "|u1", "version": 3}


@functools.cache
def _system() -> Any:
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    system.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return system
