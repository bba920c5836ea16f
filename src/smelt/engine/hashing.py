"""SHA-256 of files, in the background while other work goes on, and remembered for files that did not change."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from smelt.engine.cache import cache_folder
from smelt.engine.hashers import Hashers
from smelt.engine.sha256 import FileHash
from smelt.errors import CorruptFile
from smelt.files.json_reader import read_json

__all__ = ["ParentHashes", "file_hashes", "file_identity", "hash_file"]

_BLOB = re.compile(r"^[0-9a-f]{64}$")


def hash_file(path: Path) -> str:
    """The SHA-256 of a file's bytes, as `sha256sum` prints it."""
    return FileHash(path).finish()


class ParentHashes:
    """Hashes of the input files, computed by threads of their own from the moment it is made.

    A hash is remembered under the file's path, size and time of change, so that a second merge of the same
    models does not read them once more. Files of the Hugging Face cache carry their hash as their name.
    """

    def __init__(self, files: Iterable[Path]):
        self._files = list(dict.fromkeys(Path(f) for f in files))
        self._memory = _Memory()
        self._known = {path: known for path in self._files if (known := self._memory.get(path))}
        # Who they are before they are read: a file that changes meanwhile must not be known by what it was.
        self._new = {path: file_identity(path) for path in self._files if path not in self._known}
        self._hashers = Hashers(partial(FileHash, path) for path in self._new)

    def result(self) -> Mapping[Path, str]:
        new = {path: future.result() for path, future in zip(self._new, self._hashers.futures, strict=True)}
        self._memory.keep({self._new[path]: found for path, found in new.items()})
        return {path: self._known.get(path) or new[path] for path in self._files}

    def close(self) -> None:
        self._hashers.close()


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
            known = read_json(self._path)
            self._known: dict[str, str] = known if isinstance(known, dict) else {}
        except CorruptFile:
            self._known = {}

    def get(self, path: Path) -> str | None:
        real = path.resolve()
        if _BLOB.match(real.name) and real.parent.name == "blobs":
            return real.name
        return self._known.get(file_identity(path))

    def keep(self, new: Mapping[str, str]) -> None:
        """Hashes by the identity of their files."""
        if new.items() <= self._known.items():
            return
        self._known = dict(list({**self._known, **new}.items())[-10_000:])
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
