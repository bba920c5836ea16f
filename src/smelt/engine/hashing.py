"""SHA-256 of files, in the background while other work goes on, and remembered for files that did not change."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Condition, Event, Thread

__all__ = ["FollowingHash", "ParentHashes", "hash_file"]

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
    """Hashes a file while it is being written elsewhere in the process: it follows as far as the bytes are final."""

    def __init__(self, descriptor: int, size: int):
        self._descriptor, self._size = descriptor, size
        self._final = 0
        self._stopped = False
        self._changed = Condition()
        self._digest = hashlib.sha256()
        self._error: OSError | None = None
        self._thread = Thread(target=self._run, name="smelt-hash", daemon=True)
        self._thread.start()

    def final_up_to(self, position: int) -> None:
        """All bytes before `position` have their last value."""
        with self._changed:
            self._final = position
            self._changed.notify()

    def result(self) -> str:
        """The digest of the whole file, once all of it is final."""
        self.final_up_to(self._size)
        self._thread.join()
        if self._error is not None:
            raise self._error
        return self._digest.hexdigest()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        buffer = bytearray(_CHUNK)
        view, position = memoryview(buffer), 0
        while position < self._size:
            with self._changed:
                self._changed.wait_for(lambda: self._final > position or self._stopped)  # noqa: B023
                final = self._final
            if self._stopped:
                return
            while position < final and not self._stopped:
                try:
                    count = os.preadv(self._descriptor, [view[: min(_CHUNK, final - position)]], position)
                except OSError as error:
                    self._error = error
                    return
                self._digest.update(view[:count])
                position += count


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


class _Memory:
    """The remembered hashes: a small JSON file in the user's cache folder. Losing it costs time only."""

    def __init__(self) -> None:
        root = os.environ.get("SMELT_CACHE") or os.path.join(
            os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "smelt"
        )
        self._path = Path(root) / "hashes.json"
        try:
            known = json.loads(self._path.read_text())
            self._known: dict[str, str] = known if isinstance(known, dict) else {}
        except (OSError, ValueError):
            self._known = {}

    def get(self, path: Path) -> str | None:
        real = path.resolve()
        if _BLOB.match(real.name) and real.parent.name == "blobs":
            return real.name
        return self._known.get(_identity(path))

    def keep(self, hashes: Mapping[Path, str]) -> None:
        new = {_identity(path): value for path, value in hashes.items()}
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


def _identity(path: Path) -> str:
    status = path.stat()
    return f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}|{status.st_ino}"
