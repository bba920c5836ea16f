"""A file on a server, as it was at the first look: its first bytes, its size, and what tells another version.

Every request names the version (If-Match), and every answer is held against it. Bytes come from whoever reads ahead for
the run (read_ahead.py), and else by one request each.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, BinaryIO, Protocol

from smelt.errors import CorruptFile, InputChanged, RecipeError
from smelt.files.identity import FileIdentity
from smelt.files.remote.faults import Fault, NotThere, as_os_error, asked_again
from smelt.files.remote.store import Found

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["HEAD", "Reader", "RemoteFile"]

HEAD = 1 << 18
"""Bytes of the first request: most headers are shorter."""
_REMOTE = -1
"""The device of files that are on none of this machine."""


class Reader(Protocol):
    """Who has bytes of files, or fetches them."""

    def read(self, file: RemoteFile, position: int, room: memoryview) -> None: ...


class Store(Protocol):
    """Where files of servers are asked for; each call is one request."""

    def read(self, name: str, start: int, end: int, pinned: str | None = None) -> tuple[memoryview, Found]: ...

    def look(self, name: str) -> Found: ...


class RemoteFile:
    """One version of a file. For any number of threads."""

    def __init__(self, store: Store, name: str, url: str, *, sha256: str | None = None):
        """`url` is how people are told of it. `sha256` is what the server says of its content, where it does."""
        self.url, self.name, self.sha256 = url, name, sha256
        self._store = store
        try:
            head, found = asked_again(lambda: store.read(name, 0, HEAD), opening=True)
        except NotThere:
            raise
        except Fault as fault:
            raise RecipeError(f"{url}: {fault}") from None
        self.size, self._pin = found.size, found.pin
        header = 8 + int.from_bytes(head[:8], "little")
        self.head = bytes(head[:header])
        """What is held of it: the header, or as much of it as came at first."""
        self.identity = self._identity(found)
        self.reader: Reader | None = None
        """Who reads for the run that is under way."""

    def fill(self, room: memoryview, position: int) -> bool:
        """Fill all of the room from this byte on; False where the file ends before. An OSError says what failed."""
        end = position + len(room)
        if end > self.size:
            return False
        if end <= len(self.head):
            room[:] = self.head[position:end]
        elif self.reader is not None:
            self.reader.read(self, position, room)
        elif len(room):
            room[:] = self.fetch(position, end)
        return True

    def fetch(self, start: int, end: int, *, sleep: Callable[[float], object] = time.sleep) -> memoryview:
        """These bytes, by requests of their own; `sleep` waits between them."""
        try:
            return asked_again(lambda: self._store.read(self.name, start, end, self._pin)[0], sleep=sleep)
        except Fault as fault:
            raise as_os_error(fault, self.url) from None

    def begin(self) -> BinaryIO:
        """The file from its first byte on, for those who read a header."""
        return io.BufferedReader(_FromTheFront(self), HEAD)

    def content(self, most: int) -> bytes:
        """All of a small file; CorruptFile where it is none."""
        if self.size > most:
            raise CorruptFile(f"{self.url}: {self.size:,} bytes are too many for a file beside weights")
        head, self.head = self.head, b""  # it is not asked for again
        rest = self.fetch(len(head), self.size) if self.size > len(head) else b""
        return head + bytes(rest)

    def identity_now(self) -> FileIdentity:
        """Who it is now, by a new look."""
        try:
            return self._identity(asked_again(lambda: self._store.look(self.name)))
        except NotThere:
            raise CorruptFile(f"{self.url}: there is no such file on the server") from None
        except InputChanged:
            raise
        except Fault as fault:
            raise as_os_error(fault, self.url) from None

    def _identity(self, found: Found) -> FileIdentity:
        """The same in every run, as long as the server has the same version."""
        number = int.from_bytes(hashlib.blake2b(self.url.encode(), digest_size=7).digest())
        return FileIdentity(found.size, 0, 0, number, _REMOTE, 1, found.pin)


class _FromTheFront(io.RawIOBase):
    """Reads one range after the other."""

    def __init__(self, file: RemoteFile):
        self._file, self._position = file, 0

    def readable(self) -> bool:
        return True

    def readinto(self, room: Buffer) -> int:
        some = memoryview(room)[: self._file.size - self._position]
        self._file.fill(some, self._position)
        self._position += len(some)
        return len(some)
