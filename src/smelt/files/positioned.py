"""Reading and writing at a place of an open file: by any number of threads, as nobody moves where the file stands.

Windows has no such functions. There each of these moves it, and all wait for each other.
"""

from __future__ import annotations

import os
import threading
from typing import NamedTuple

__all__ = ["BINARY", "FilePlace", "fill", "read_at", "read_into", "write_at", "write_fully"]

BINARY = getattr(os, "O_BINARY", 0)
"""A flag of `os.open`: bytes are what they are. Without it Windows takes some of them for ends of lines."""

_TURN = threading.Lock()


class FilePlace(NamedTuple):
    """A byte of an open file, for code in C."""

    descriptor: int
    position: int
    tree: int = 0
    """The address of the tree of the file's hash; 0 where none is made."""
    busy: int = 0
    """The address of a 32-bit number that is 1 while somebody writes to the file; 0 where nobody asks."""


if hasattr(os, "preadv"):

    def read_into(descriptor: int, room: memoryview, position: int) -> int:
        """Fill the room, or less of it, from this byte of the file on; the number of bytes, 0 at its end."""
        return os.preadv(descriptor, [room], position)

    def write_at(descriptor: int, content: bytes | memoryview, position: int) -> int:
        """Write some of this to the file, from this byte on; the number of bytes."""
        return os.pwrite(descriptor, content, position)

else:

    def read_into(descriptor: int, room: memoryview, position: int) -> int:
        """Fill the room, or less of it, from this byte of the file on; the number of bytes, 0 at its end."""
        with _TURN:
            os.lseek(descriptor, position, os.SEEK_SET)
            with os.fdopen(descriptor, "rb", buffering=0, closefd=False) as file:
                return file.readinto(room) or 0

    def write_at(descriptor: int, content: bytes | memoryview, position: int) -> int:
        """Write some of this to the file, from this byte on; the number of bytes."""
        with _TURN:
            os.lseek(descriptor, position, os.SEEK_SET)
            return os.write(descriptor, content)


def write_fully(descriptor: int, content: memoryview, position: int) -> None:
    """Write all of this to the file, from this byte on."""
    while len(content):
        written = write_at(descriptor, content, position)
        content, position = content[written:], position + written


def fill(descriptor: int, room: memoryview, position: int) -> bool:
    """Fill all of the room from this byte of the file on; False where the file ends before."""
    return _filled(descriptor, room, position) == len(room)


def read_at(descriptor: int, count: int, position: int) -> bytes:
    """So many bytes of the file, fewer at its end."""
    room = bytearray(count)
    return bytes(room[: _filled(descriptor, memoryview(room), position)])


def _filled(descriptor: int, room: memoryview, position: int) -> int:
    done = 0
    while done < len(room) and (got := read_into(descriptor, room[done:], position + done)):
        done += got
    return done
