"""The SHA-256 of a file from its front on, as far as one wants it, and of two files at once.

Two files at once take hardly longer than one where the processor has instructions for SHA-256 (sha256.c); elsewhere one
follows the other, in hashlib. Reading and hashing run without the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from functools import cache
from pathlib import Path

from smelt.system.native import native_library

__all__ = ["FileHash", "StopFlag", "files_at_once", "hash_both"]

_BLOCK = 64
_CHUNK = 1 << 18
"""Bytes that hashlib gets at once: they stay in the second cache until they are used."""
_BEGIN = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)


class StopFlag:
    """Tells those who are hashing, wherever they are, that nobody wants the result any more."""

    def __init__(self) -> None:
        self.flag = ctypes.c_int32(0)

    def set(self) -> None:
        self.flag.value = 1

    def is_set(self) -> bool:
        return self.flag.value != 0


class _Message(ctypes.Structure):
    """As in sha256.c."""

    _fields_ = (("state", ctypes.c_uint32 * 8), ("file", ctypes.c_int64), ("position", ctypes.c_int64))


class FileHash:
    """The hash of an open file on its way. For one thread at a time."""

    def __init__(self, path: Path, size: int | None = None):
        """Of its first `size` bytes, all that it has now by default. They may still be on their way into the file."""
        self._path = path
        self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        self.size = os.fstat(self._descriptor).st_size if size is None else size
        self._fast = _fast()
        self._message = _Message((ctypes.c_uint32 * 8)(*_BEGIN), self._descriptor, 0)
        self._plain = hashlib.sha256()

    @property
    def position(self) -> int:
        """How many bytes it has taken in: less than a block short of what was asked for, until it is finished."""
        return int(self._message.position)

    def advance(self, end: int, stop: StopFlag) -> None:
        """Take in the bytes before `end`, which have their last value; fewer if it is stopped meanwhile."""
        blocks = (min(end, self.size) - self.position) // _BLOCK
        if blocks <= 0:
            return
        if self._fast is None:
            self._advance_plainly(blocks * _BLOCK, stop)
        elif self._fast.smelt_sha256_files(ctypes.byref(self._message), None, blocks, ctypes.byref(stop.flag)) >= 0:
            self._refuse()

    def finish(self, stop: StopFlag | None = None) -> str:
        """The digest of all bytes, as `sha256sum` prints it; the file is closed. Worthless if it was stopped."""
        stop = stop or StopFlag()
        try:
            self.advance(self.size, stop)
            if stop.is_set():
                return ""
            rest = os.pread(self._descriptor, self.size - self.position, self.position)
            if len(rest) < self.size - self.position:
                self._refuse()
        finally:
            self.close()
        if self._fast is None:
            self._plain.update(rest)
            return self._plain.hexdigest()
        last = rest + b"\x80" + bytes((55 - len(rest)) % _BLOCK) + (8 * self.size).to_bytes(8, "big")
        self._fast.smelt_sha256_memory(ctypes.byref(self._message), last, len(last) // _BLOCK)
        return "".join(f"{word:08x}" for word in self._message.state)

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _advance_plainly(self, count: int, stop: StopFlag) -> None:
        room = memoryview(bytearray(min(count, _CHUNK)))
        while count and not stop.is_set():
            got = os.preadv(self._descriptor, [room[: min(count, _CHUNK)]], self.position)
            if not got:
                self._refuse()
            self._plain.update(room[:got])
            self._message.position += got
            count -= got

    def _refuse(self) -> None:
        """The file could not be read: say why."""
        os.pread(self._descriptor, 1, self.position)
        raise OSError(f"{self._path}: ended while it was being hashed; the file has changed")


def files_at_once() -> int:
    """How many files one thread should hash at a time."""
    return 1 if _fast() is None else 2


def hash_both(one: FileHash, other: FileHash, stop: StopFlag) -> None:
    """Take both as far as they can go together: to the last block of the shorter rest."""
    blocks = min(each.size - each.position for each in (one, other)) // _BLOCK
    fast = _fast()
    if fast is None:
        for each in (one, other):
            each.advance(each.position + blocks * _BLOCK, stop)
        return
    files = (ctypes.byref(one._message), ctypes.byref(other._message))
    fault = fast.smelt_sha256_files(*files, blocks, ctypes.byref(stop.flag))
    if fault >= 0:
        (one, other)[fault]._refuse()


@cache
def _fast() -> ctypes.CDLL | None:
    """The functions of sha256.c, where they are compiled and the processor has what they need."""
    found = native_library(Path(__file__).parent, "_sha256")
    try:
        if found is None or not found.smelt_sha256_here():
            return None
        files, memory = found.smelt_sha256_files, found.smelt_sha256_memory
    except AttributeError:  # made by another version of Smelt
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    files.argtypes, files.restype = [pointer, pointer, number, pointer], number
    memory.argtypes, memory.restype = [pointer, ctypes.c_char_p, number], None
    return found
