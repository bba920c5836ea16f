"""SHA-256 of files, in the background while other work goes on, and remembered for files that did not change."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from smelt.errors import CorruptFile
from smelt.files.cache import cache_folder, write_cached
from smelt.files.hashing.pool import HashPool
from smelt.files.hashing.sha256 import FileHash
from smelt.files.identity import FileIdentity, identities
from smelt.files.json_reader import read_json

__all__ = ["InputHashes", "cache_key", "file_hashes", "hash_file"]

_BLOB = re.compile(r"^[0-9a-f]{64}$")


def hash_file(path: Path) -> str:
    """The SHA-256 of a file's bytes, as `sha256sum` prints it."""
    return FileHash(path).finish()


class InputHashes:
    """Hashes of the input files, computed by threads of their own from the moment it is made.

    A hash is remembered under the file's path and identity, so that a second merge of the same models does not read
    them once more. Files of the Hugging Face cache carry their hash as their name.
    """

    def __init__(self, files: Mapping[Path, FileIdentity]):
        """`files` as they were before they were read: one that changes meanwhile must not be known by what it was."""
        self._files = files
        self._memory = _HashCache()
        self._known = {path: known for path, seen in files.items() if (known := self._memory.get(path, seen))}
        self._new = [path for path in files if path not in self._known]
        self._hashers = HashPool(partial(FileHash, path) for path in self._new)

    def result(self) -> Mapping[Path, str]:
        new = {path: future.result() for path, future in zip(self._new, self._hashers.futures, strict=True)}
        self._memory.keep({cache_key(path, self._files[path]): found for path, found in new.items()})
        return {path: self._known.get(path) or new[path] for path in self._files}

    def close(self) -> None:
        self._hashers.close()


def file_hashes(files: Mapping[Path, FileIdentity] | Iterable[Path]) -> Mapping[Path, str]:
    """SHA-256 of every file; one that did not change since it was last asked for is not read again.

    Files of an open model come as they were when they were opened; a path alone is what lies there now.
    """
    hashes = InputHashes(files if isinstance(files, Mapping) else identities(files))
    try:
        return hashes.result()
    finally:
        hashes.close()


class _HashCache:
    """The remembered hashes: a small JSON file in the user's cache folder. Losing it costs time only."""

    def __init__(self) -> None:
        self._path = cache_folder() / "hashes.json"
        try:
            known = read_json(self._path)
            self._known: dict[str, str] = known if isinstance(known, dict) else {}
        except CorruptFile:
            self._known = {}

    def get(self, path: Path, seen: FileIdentity) -> str | None:
        real = path.resolve()
        if _BLOB.match(real.name) and real.parent.name == "blobs":
            return real.name
        return self._known.get(cache_key(path, seen))

    def keep(self, new: Mapping[str, str]) -> None:
        """Hashes by the identity of their files."""
        if new.items() <= self._known.items():
            return
        self._known = dict(list({**self._known, **new}.items())[-10_000:])
        write_cached(self._path, json.dumps(self._known))


def cache_key(path: Path, seen: FileIdentity) -> str:
    """What is remembered about a file goes by this name: its place, and who it was there."""
    return "|".join(map(str, (path.resolve(), *seen)))
