"""BLAKE3 of files, as `b3sum` prints it: of whole files, and of files whose bytes come in any order, from any thread.

BLAKE3 is a tree: pieces are hashed on their own, where and when somebody has them in a cache, and nobody waits for what
lies before them. blake3.c does that for merges, since the library for Python takes bytes from the front on only. Where
it is not compiled, the library hashes whole files when they are complete: the same digests, later.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache, partial
from pathlib import Path

from smelt.files.input_file import InputFile, open_input
from smelt.system.process import native_library, usable_cores

__all__ = ["DIGITS", "TreeHash", "blake3_of", "blake3_of_bytes", "compiled_blake3"]

DIGITS = 64
"""Of a digest."""
_PART = 1 << 23
"""Bytes that one thread reads and hashes before it takes the next."""
_ROOM = 1 << 24


class TreeHash:
    """The hash of a file of known size on its way. Every byte may come once, or again and again; the first one counts.

    For any number of threads, but `finish`, which comes when all are done.
    """

    def __init__(self, size: int):
        self.size = size
        self._library = compiled_blake3()
        self.address: int | None = self._library.smelt_blake3_tree(size) if self._library is not None else None
        """Of the tree in blake3.c, for other libraries; None where there is none."""

    def add(self, position: int, content: memoryview | bytes) -> None:
        """These bytes of the file, from `position` on."""
        if self._library is None or not len(content):  # an empty tensor
            return
        given = bytes(content) if isinstance(content, memoryview) and content.readonly else content
        where = given if isinstance(given, bytes) else ctypes.addressof(ctypes.c_char.from_buffer(given))
        self._library.smelt_blake3_add(self.address, position, where, len(content))

    def finish(self, path: Path) -> str:
        """The digest. What has not come is read from the file, which is complete; an OSError says that it ended."""
        with closing(open_input(path)) as file:
            digest = self._whole(file) if self._library is None else self._rest(file)
        if digest is None:
            raise OSError(f"{path}: ended while it was being hashed; the file has changed")
        return digest

    def finish_by(self, read: Callable[[int, int], bytes]) -> str:
        """The same of bytes that lie elsewhere: `read` gives so many from a place on."""
        if self._library is None:
            from blake3 import blake3

            hasher = blake3(max_threads=blake3.AUTO)
            for at in range(0, self.size, _PART):
                hasher.update(read(at, min(_PART, self.size - at)))
            return str(hasher.hexdigest())
        for start, end in list(self.gaps()):
            for at in range(start, end, _PART):
                self.add(at, read(at, min(_PART, end - at)))
        digest = (ctypes.c_uint8 * (DIGITS // 2))()
        if not self._library.smelt_blake3_root(self.address, digest):
            raise OSError("there were fewer bytes than there should be to hash")
        return bytes(digest).hex()

    @property
    def has_some(self) -> bool:
        """Whether any byte has come."""
        return self._library is not None and next(self.gaps(), (0, 0)) != (0, self.size)

    def packed(self) -> bytes:
        """What has come until now, for the tree of the same file in another process; this one begins anew.

        Nothing where the library is not compiled. Called while nobody adds anything.
        """
        if self._library is None:
            return b""
        room = ctypes.create_string_buffer(self._library.smelt_blake3_packed(self.address))
        self._library.smelt_blake3_pack(self.address, room)
        return room.raw

    def join(self, packed: bytes) -> None:
        """Take in what another process has hashed of this file; nothing of what came before is taken again."""
        if self._library is not None and packed:
            self._library.smelt_blake3_unpack(self.address, packed, len(packed))

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Where bytes are missing: the first one of each stretch, and the one after its last."""
        assert self._library is not None
        start, end = ctypes.c_int64(0), ctypes.c_int64(0)
        while self._library.smelt_blake3_gap(self.address, end.value, ctypes.byref(start), ctypes.byref(end)):
            yield start.value, end.value

    def _rest(self, file: InputFile) -> str | None:
        assert self._library is not None
        parts = [(at, min(at + _PART, end)) for start, end in self.gaps() for at in range(start, end, _PART)]
        read = partial(self._read, file)
        if len(parts) > 1:
            with ThreadPoolExecutor(min(usable_cores(), len(parts)), "smelt-hash") as threads:
                complete = all(threads.map(read, parts))
        else:
            complete = all(map(read, parts))
        digest = (ctypes.c_uint8 * (DIGITS // 2))()
        found = complete and self._library.smelt_blake3_root(self.address, digest)
        return bytes(digest).hex() if found else None

    def _read(self, file: InputFile, part: tuple[int, int]) -> bool:
        assert self._library is not None
        if file.descriptor is not None and hasattr(self._library, "smelt_blake3_read"):
            return bool(self._library.smelt_blake3_read(self.address, file.descriptor, *part))
        content = bytearray(part[1] - part[0])  # afar, or Windows, where a library does not know Python's descriptors
        if not file.fill(memoryview(content), part[0]):
            return False
        self.add(part[0], memoryview(content))
        return True

    def _whole(self, file: InputFile) -> str | None:
        from blake3 import blake3

        hasher, room, position = blake3(max_threads=blake3.AUTO), bytearray(min(_ROOM, self.size)), 0
        while position < self.size:
            some = memoryview(room)[: min(_ROOM, self.size - position)]
            if not file.fill(some, position):
                return None
            hasher.update(some)
            position += len(some)
        return str(hasher.hexdigest())

    def __del__(self) -> None:
        if self.address is not None and self._library is not None:
            self._library.smelt_blake3_free(self.address)


def blake3_of_bytes(content: bytes) -> str:
    """The digest of these bytes."""
    return TreeHash(len(content)).finish_by(lambda start, size: content[start : start + size])


def blake3_of(path: Path) -> str:
    """The digest of a whole file, read by all cores."""
    return TreeHash(path.stat().st_size).finish(path)


@cache
def compiled_blake3() -> ctypes.CDLL | None:
    """The functions of blake3.c, where they are compiled."""
    found = native_library(Path(__file__).parent, "_blake3")
    if found is None:
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    declared = {
        "tree": ([number], pointer),
        "free": ([pointer], None),
        "add": ([pointer, number, pointer, number], None),
        "gap": ([pointer, number, pointer, pointer], number),
        "root": ([pointer, pointer], number),
        "lanes": ([], number),
        "allow_lanes": ([number], None),
        "open": ([pointer, number, number], pointer),
        "feed": ([pointer, pointer, number], None),
        "close": ([pointer], None),
        "packed": ([pointer], number),
        "pack": ([pointer, pointer], None),
        "unpack": ([pointer, pointer, number], number),
        **({} if os.name == "nt" else {"read": ([pointer, number, number, number], number)}),
    }
    try:
        for name, (takes, gives) in declared.items():
            function = getattr(found, f"smelt_blake3_{name}")
            function.argtypes, function.restype = takes, gives
    except AttributeError:  # made by another version of Smelt
        return None
    return found
