"""The SHA-256 of files: of one from its front on, of many by threads, and of those that are being written.

`FileHash` takes a file as far as one wants it. Two files at once take hardly longer than one where the processor has
instructions for SHA-256 (sha256.c); elsewhere one follows the other, in hashlib. Reading and hashing run without the
interpreter's lock. `HashPool` has threads that hash files to their ends. `IncrementalHashes` follows files that are
written elsewhere in the process.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path
from typing import TypeAlias

from smelt.files.positioned import BINARY, read_at, read_into
from smelt.system.process import native_library, usable_cores

__all__ = ["Begin", "FileHash", "HashPool", "IncrementalHashes", "StopFlag", "files_at_once", "hash_both"]

_BLOCK = 64
_CHUNK = 1 << 18
"""Bytes that hashlib gets at once: they stay in the second cache until they are used."""
_BEGIN = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
_MOST_THREADS = 4
"""More than a disk likes to be read by, and few enough to leave cores for the rest."""
_LEAST, _MOST = 1 << 20, 1 << 25
"""Bytes that are worth the while for a thread that has just written some, and how many it takes before it writes on."""


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
        self._descriptor = os.open(path, os.O_RDONLY | BINARY)
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
            rest = read_at(self._descriptor, self.size - self.position, self.position)
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
            got = read_into(self._descriptor, room[: min(count, _CHUNK)], self.position)
            if not got:
                self._refuse()
            self._plain.update(room[:got])
            self._message.position += got
            count -= got

    def _refuse(self) -> None:
        """The file could not be read: say why."""
        read_at(self._descriptor, 1, self.position)
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


Begin: TypeAlias = Callable[[], FileHash]
"""Opens a file, or gives one whose hash is on its way."""


class HashPool:
    """Threads that hash files to their ends; where there are more files than threads, each hashes two at a time.

    They begin when they are made. What they find is in `futures`, in the order in which files were given.
    """

    def __init__(self, files: Iterable[Begin]):
        self._waiting = [(begin, Future[str]()) for begin in files]
        self.futures = [future for _, future in self._waiting]
        self._waiting.reverse()
        self._stop = StopFlag()
        count = min(_MOST_THREADS, usable_cores(), len(self._waiting))
        self._each = files_at_once() if len(self._waiting) > count else 1
        self._threads = [threading.Thread(target=self._run, name="smelt-hash", daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Leave off, if they are not done; who then asks for what was not found gets a CancelledError."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for future in self.futures:
            future.cancel()

    def _run(self) -> None:
        pair: list[tuple[FileHash, Future[str]]] = []
        try:
            while not self._stop.is_set() and self._fill(pair):
                if len(pair) == 2:
                    hash_both(pair[0][0], pair[1][0], self._stop)
                    pair.sort(key=lambda each: each[0].size - each[0].position)
                hash_, future = pair[0]
                found = hash_.finish(self._stop)
                if not self._stop.is_set():
                    future.set_result(found)
                    del pair[0]
        except BaseException as error:  # whoever waits has to know; what was hashed beside it is not worth keeping
            for _, future in pair:
                future.set_exception(error)
        finally:
            for hash_, _ in pair:
                hash_.close()

    def _fill(self, pair: list[tuple[FileHash, Future[str]]]) -> bool:
        """Take from those that wait until there are enough; False where there is nothing left to do."""
        while len(pair) < self._each:
            try:
                begin, future = self._waiting.pop()
            except IndexError:
                break
            try:
                pair.append((begin(), future))
            except OSError as error:
                future.set_exception(error)
        return bool(pair)


class IncrementalHashes:
    """The hashes of files of known size, pieces of which are written in any order, from any thread, each once.

    Whoever has written a piece hashes what can be hashed, unless somebody else is at it: one core works on the hash,
    which cannot be divided, while the others write on, and little is left to hash after the last piece. With a thread
    of its own the hash had to share the cores with all others, and ended a quarter of a second after them.
    """

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
