"""SHA-256 of files, in the background while other work goes on, and remembered for files that did not change."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from io import FileIO
from pathlib import Path
from threading import Condition, Event, Thread

from smelt.engine.cache import cache_folder

__all__ = ["FollowingHash", "ParentHashes", "file_hashes", "file_identity", "hash_file"]

_CHUNK = 1 << 20
_HASHERS = 2
_BLOB = re.compile(r"^[0-9a-f]{64}$")


def hash_file(path: Path, stop: Event | None = None) -> str:
    """The SHA-256 of a file's bytes, as `sha256sum` prints it."""
    digest = hashlib.sha256()
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as file:
        while (count := file.readinto(buffer)) and not (stop and stop.is_set()):
            digest.update(view[:count])
    return digest.hexdigest()


class FollowingHash:
    """Hashes files while they are being written elsewhere in the process, one after the other.

    One thread follows as far as the bytes are final, so that little is left to hash when the last block is written.
    """

    def __init__(self, files: Sequence[tuple[Path, int]]):
        self._files = list(files)
        self._final = [0] * len(self._files)
        self._digests: list[str] = []
        self._stopped = False
        self._changed = Condition()
        self._error: OSError | None = None
        self._thread = Thread(target=self._run, name="smelt-hash", daemon=True)
        self._thread.start()

    def final_up_to(self, file: int, position: int) -> None:
        """All bytes of this file before `position` have their last value."""
        with self._changed:
            self._final[file] = position
            self._changed.notify()

    def result(self) -> list[str]:
        """The digests of all files, each of which is final."""
        with self._changed:
            self._final = [size for _, size in self._files]
            self._changed.notify()
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._digests

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            for number, (path, size) in enumerate(self._files):
                if not self._wait_beyond(number, 0, size):
                    return
                with open(path, "rb", buffering=0) as file:
                    digest = self._follow(number, file, size)
                if digest is None:
                    return
                self._digests.append(digest)
        except OSError as error:
            self._error = error

    def _follow(self, number: int, file: FileIO, size: int) -> str | None:
        digest, view, position = hashlib.sha256(), memoryview(bytearray(_CHUNK)), 0
        while position < size:
            if not self._wait_beyond(number, position, size):
                return None
            while position < self._final[number] and not self._stopped:
                count = file.readinto(view[: min(_CHUNK, self._final[number] - position)])
                digest.update(view[:count])
                position += count
        return digest.hexdigest()

    def _wait_beyond(self, number: int, position: int, size: int) -> bool:
        """Wait until more of the file is final; False if nobody wants the result any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._final[number] > position or position >= size)
        return not self._stopped


class ParentHashes:
    """Hashes of the input files, computed by threads of their own from the moment it is made.

    A hash is remembered under the file's path, size and time of change, so that a second merge of the same
    models does not read them once more. Files of the Hugging Face cache carry their hash as their name.
    """

    def __init__(self, files: Iterable[Path]):
        self._files = list(dict.fromkeys(Path(f) for f in files))
        self._stop = Event()
        self._memory = _Memory()
        self._pool = ThreadPoolExecutor(_HASHERS, thread_name_prefix="smelt-hash")
        self._futures: dict[Path, Future[str]] = {path: self._pool.submit(self._hash, path) for path in self._files}

    def result(self) -> Mapping[Path, str]:
        hashes = {path: future.result() for path, future in self._futures.items()}
        self._memory.keep(hashes)
        return hashes

    def close(self) -> None:
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _hash(self, path: Path) -> str:
        return self._memory.get(path) or hash_file(path, self._stop)


def file_hashes(files: Iterable[Path]) -> Mapping[Path, str]:
    """SHA-256 of every file; one that did not change since it was last asked for is not read again."""
    hashes = ParentHashes(files)
    try:
        return hashes.result()
    finally:
        hashes.close()


class _Memory:
    """The remembered hashes: a small JSON file in the user's cache folder. Losing it costs time only."""

    def __init__(self) -> None:
        self._path = cache_folder() / "hashes.json"
        try:
            known = json.loads(self._path.read_text())
            self._known: dict[str, str] = known if isinstance(known, dict) else {}
        except (OSError, ValueError):
            self._known = {}

    def get(self, path: Path) -> str | None:
        real = path.resolve()
        if _BLOB.match(real.name) and real.parent.name == "blobs":
            return real.name
        return self._known.get(file_identity(path))

    def keep(self, hashes: Mapping[Path, str]) -> None:
        new = {file_identity(path): value for path, value in hashes.items()}
        if new.items() <= self._known.items():
            return
        self._known = dict(list((self._known | new).items())[-10_000:])
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary = self._path.with_suffix(f".{os.getpid()}")
            temporary.write_text(json.dumps(self._known))
            temporary.replace(self._path)
        except OSError:
            return


def file_identity(path: Path) -> str:
    """What tells that a file is the one it was: its place, size and time of change."""
    status = path.stat()
    return f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}|{status.st_ino}"
