"""The SHA-256 of files that are being written elsewhere in the process.

Whoever has written a piece hashes what can be hashed, unless somebody else is at it: one core works on the hash, which
cannot be divided, while the others write on, and little is left to hash after the last piece. With a thread of its own
the hash had to share the cores with all others, and ended a quarter of a second after them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from smelt.files.hashing.pool import HashPool
from smelt.files.hashing.sha256 import FileHash, StopFlag

__all__ = ["IncrementalHashes"]

_LEAST, _MOST = 1 << 20, 1 << 25
"""Bytes that are worth the while, and how many one takes before it writes on."""


class IncrementalHashes:
    """The hashes of files of known size, pieces of which are written in any order, from any thread, each once."""

    def __init__(self, files: Sequence[tuple[Path, int]]):
        self._files = [_IncrementalHash(path, size) for path, size in files]
        self._stop = StopFlag()

    def found(self, file: int, start: int, end: int) -> None:
        """The bytes from `start` to `end` of this file have had their last value before."""
        self._files[file].add(start, end)

    def wrote(self, file: int, start: int, end: int) -> None:
        """The same, of bytes that were written right now. Hashes, if there is something to hash and nobody does."""
        self._files[file].add(start, end)
        self._files[file].catch_up(self._stop)

    def result(self) -> list[str]:
        """The digests of all files, each of which is written."""
        left = [file for file in self._files if not file.digest]
        hashers = HashPool(file.begin for file in left)
        try:
            for file, future in zip(left, hashers.futures, strict=True):
                file.digest = future.result()
        finally:
            hashers.close()
        return [file.digest for file in self._files]

    def close(self) -> None:
        self._stop.set()
        for file in self._files:
            file.close()


class _IncrementalHash:
    """One file: what is written from its front on without a gap, and how far that is hashed."""

    def __init__(self, path: Path, size: int):
        self._path, self._size = path, size
        self._front = 0
        self._early: dict[int, int] = {}
        """Pieces beyond the front: where they begin -> where they end."""
        self._lock, self._turn = threading.Lock(), threading.Lock()
        self._hash: FileHash | None = None
        self.digest = ""

    def add(self, start: int, end: int) -> None:
        if start == end:
            return
        with self._lock:
            assert start >= self._front, "a piece is written once, since what is written may be hashed already"
            self._early[start] = end
            while (further := self._early.pop(self._front, None)) is not None:
                self._front = further

    def catch_up(self, stop: StopFlag) -> None:
        if not (self._behind() or self._all_there()) or not self._turn.acquire(blocking=False):
            return
        try:
            hash_ = self.begin()
            upto = hash_.position + _MOST
            while self._behind() and hash_.position < upto:
                hash_.advance(min(self._front, upto), stop)
            if self._all_there() and not self._behind():
                self.digest = hash_.finish(stop)
        finally:
            self._turn.release()

    def begin(self) -> FileHash:
        """Its hash as far as it has come."""
        if self._hash is None:
            self._hash = FileHash(self._path, self._size)
        return self._hash

    def close(self) -> None:
        if self._hash is not None:
            self._hash.close()

    def _all_there(self) -> bool:
        """Whether a hash that was begun can be finished, so that few files are open at a time."""
        return self._front == self._size and self._hash is not None and not self.digest

    def _behind(self) -> bool:
        return self._front - (self._hash.position if self._hash is not None else 0) >= _LEAST
