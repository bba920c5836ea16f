"""Who a file is: what tells that a path still has the very bytes that it had, and the SHA-256 of these bytes.

Size and time of change are not enough, since whoever edits a file can put its time back. The system's own time (ctime)
moves with every write and cannot be set. It moves too when a file gets another name, owner or rights; a hard link that
is made or removed, as the hub's store does, is known by the number of names and is no change of the bytes.

Hashes are made in the background while other work goes on, and remembered for files that did not change.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import NamedTuple

from smelt.errors import CorruptFile, InputChanged
from smelt.files.cache import cached_path, write_cached
from smelt.files.hashing.sha256 import FileHash, HashPool
from smelt.files.reading import find_json_table

__all__ = [
    "FileIdentity",
    "InputHashes",
    "cache_key",
    "check_unchanged",
    "file_hashes",
    "file_identity",
    "hash_file",
    "identities",
    "known_hashes",
]

_SHOWN = 5
_BLOB = re.compile(r"^[0-9a-f]{64}$")
"""What the Hugging Face cache calls a file: its hash."""


class FileIdentity(NamedTuple):
    """A file as it was at one moment; times are in nanoseconds."""

    size: int
    mtime: int
    ctime: int
    inode: int
    device: int
    names: int

    def change(self, now: FileIdentity) -> str | None:
        """What happened to the file since, in words; None if it has the same bytes."""
        if (self.inode, self.device) != (now.inode, now.device):
            return "another file has taken its place"
        if (self.size, self.mtime) != (now.size, now.mtime):
            return "it was written to"
        if self.ctime != now.ctime and self.names == now.names:
            return "it was changed and its time put back, or its name, owner or rights were changed"
        return None


def file_identity(path: Path) -> FileIdentity:
    """Who the file at a path is now; of a link, the file that it leads to."""
    try:
        found = os.stat(path)
    except OSError as error:
        raise CorruptFile(f"{path}: not a file that can be read ({error.strerror})") from None
    return FileIdentity(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev, found.st_nlink)


def identities(paths: Iterable[Path]) -> dict[Path, FileIdentity]:
    """The same of several files, by their paths."""
    return {path: file_identity(path) for path in paths}


def check_unchanged(seen: Mapping[Path, FileIdentity]) -> None:
    """Raise where a file is not the one any more that it was when it was seen, with every such file."""
    changes = [(path, change) for path, before in seen.items() if (change := _change(path, before)) is not None]
    if not changes:
        return
    told = [f"{path} ({change})" for path, change in changes[:_SHOWN]]
    if changes[_SHOWN:]:
        told.append(f"and {len(changes) - _SHOWN} more")
    raise InputChanged(
        f"an input changed while it was being used: {', '.join(told)}. What was made may mix old and new bytes and is "
        "thrown away; run again when nothing writes there"
    )


def _change(path: Path, before: FileIdentity) -> str | None:
    try:
        return before.change(file_identity(path))
    except CorruptFile:
        return "it is gone"


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


def known_hashes(files: Mapping[Path, FileIdentity]) -> dict[Path, str]:
    """The SHA-256 of those files for which it is remembered; nothing is read."""
    memory = _HashCache()
    return {path: known for path, seen in files.items() if (known := memory.get(path, seen))}


class _HashCache:
    """The remembered hashes: a small JSON file in the user's cache folder. Losing it costs time only."""

    def __init__(self) -> None:
        self._path = cached_path("hashes", "hashes.json")
        self._known: dict[str, str] = find_json_table(self._path) or {}

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
