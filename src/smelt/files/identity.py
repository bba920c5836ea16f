"""Who a file is: what tells that a path still has the very bytes that it had, and the hashes that go by it.

Size and time of change are not enough, since whoever edits a file can put its time back. The system's own time (ctime)
moves with every write and cannot be set. It moves too when a file gets another name, owner or rights; a hard link that
is made or removed, as the hub's store does, is known by the number of names and is no change of the bytes.

A file on a server (remote/) is known by what the server calls its version, and asked for anew at the end.

Hashes are remembered for files that did not change: SHA-256, which the hub, packs and notes speak of, and BLAKE3, which
merges make of what they read (hashing/).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from smelt.errors import CorruptFile, InputChanged
from smelt.files.cache import cached_path, write_cached
from smelt.files.reading import find_json_table
from smelt.files.remote.mounts import mount_name, remote_file
from smelt.system.process import usable_cores

if TYPE_CHECKING:
    from smelt.files.remote.remote_file import RemoteFile

__all__ = [
    "FileIdentity",
    "HashKind",
    "HashMemory",
    "cache_key",
    "check_unchanged",
    "file_hashes",
    "file_identity",
    "hash_file",
    "hub_hash",
    "identities",
    "known_hashes",
]

HashKind: TypeAlias = Literal["sha256", "blake3"]
_SHOWN = 5
_BLOCK = 1 << 23
_MOST_THREADS = 4
"""More than a disk likes to be read by, and few enough to leave cores for the rest."""
_MOST_ASKED = 16
"""Files on servers that are looked at at once."""
_MOST_REMEMBERED = 10_000
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
    version: str = ""
    """What a server calls the version that it gives out (an ETag); files of this machine have none."""

    def change(self, now: FileIdentity) -> str | None:
        """What happened to the file since, in words; None if it has the same bytes."""
        if (self.inode, self.device) != (now.inode, now.device):
            return "another file has taken its place"
        if self.version != now.version:
            return "the server has another version of it"
        if (self.size, self.mtime) != (now.size, now.mtime):
            return "it was written to"
        if self.ctime != now.ctime and self.names == now.names:
            return "it was changed and its time put back, or its name, owner or rights were changed"
        return None


def file_identity(path: Path) -> FileIdentity:
    """Who the file at a path is now; of a link, the file that it leads to.

    Of one on a server, who it was when its model was opened.
    """
    if (remote := remote_file(path)) is not None:
        return remote.identity
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
    found = {path: remote_file(path) for path in seen}
    afar = {path: file for path, file in found.items() if file is not None}
    asked: dict[Path, str | None] = {}
    if afar:
        with ThreadPoolExecutor(_MOST_ASKED, "smelt-look") as threads:
            asked = dict(zip(afar, threads.map(lambda path: _change(path, seen[path], afar[path]), afar), strict=True))
    changes = [
        (path, change)
        for path, before in seen.items()
        if (change := asked[path] if path in asked else _change(path, before)) is not None
    ]
    if not changes:
        return
    told = [f"{mount_name(path)} ({change})" for path, change in changes[:_SHOWN]]
    if changes[_SHOWN:]:
        told.append(f"and {len(changes) - _SHOWN} more")
    raise InputChanged(
        f"an input changed while it was being used: {', '.join(told)}. What was made may mix old and new bytes and is "
        "thrown away; run again when nothing writes there"
    )


def _change(path: Path, before: FileIdentity, remote: RemoteFile | None = None) -> str | None:
    try:
        return before.change(remote.identity_now() if remote is not None else file_identity(path))
    except CorruptFile:
        return "it is gone"


def hash_file(path: Path) -> str:
    """The SHA-256 of a file's bytes, as `sha256sum` prints it."""
    if (remote := remote_file(path)) is not None:
        return remote.sha256 or _hash_remote(remote)
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash_remote(file: RemoteFile) -> str:
    digest, room = hashlib.sha256(), bytearray(_BLOCK)
    for start in range(0, file.size, _BLOCK):
        some = memoryview(room)[: min(_BLOCK, file.size - start)]
        file.fill(some, start)
        digest.update(some)
    return digest.hexdigest()


def file_hashes(files: Mapping[Path, FileIdentity] | Iterable[Path]) -> Mapping[Path, str]:
    """SHA-256 of every file, several at a time; one that did not change since it was last asked for is not read again.

    Files of an open model come as they were when they were opened; a path alone is what lies there now.
    """
    files = files if isinstance(files, Mapping) else identities(files)
    memory = HashMemory("sha256")
    known = memory.known(files)
    unknown = [path for path in files if path not in known]
    if unknown:
        with ThreadPoolExecutor(min(_MOST_THREADS, usable_cores(), len(unknown)), "smelt-hash") as threads:
            known |= dict(zip(unknown, threads.map(hash_file, unknown), strict=True))
        memory.keep({path: (files[path], known[path]) for path in unknown})
    return {path: known[path] for path in files}


def known_hashes(files: Mapping[Path, FileIdentity], kind: HashKind) -> dict[Path, str]:
    """The hashes of those files for which they are remembered; nothing is read."""
    return HashMemory(kind).known(files)


def hub_hash(path: Path) -> str | None:
    """The SHA-256 that the Hugging Face hub has for a file: in its cache it is the file's name."""
    if (remote := remote_file(path)) is not None:
        return remote.sha256
    real = path.resolve()
    return real.name if real.parent.name == "blobs" and _BLOB.match(real.name) else None


class HashMemory:
    """Remembered hashes of one kind, in a small JSON file in the user's cache folder. Losing it costs time only."""

    def __init__(self, kind: HashKind):
        self._kind: HashKind = kind
        self._path = cached_path("hashes", "hashes.json")
        self._known: dict[str, str] = find_json_table(self._path) or {}

    def known(self, files: Mapping[Path, FileIdentity]) -> dict[Path, str]:
        """Of those files for which it is remembered."""
        return {path: found for path, seen in files.items() if (found := self.get(path, seen))}

    def get(self, path: Path, seen: FileIdentity) -> str | None:
        known = hub_hash(path) if self._kind == "sha256" else None
        return known or self._known.get(self._key(path, seen))

    def keep(self, new: Mapping[Path, tuple[FileIdentity, str]]) -> None:
        """Hashes of files, which were so when they were hashed."""
        named = {self._key(path, seen): digest for path, (seen, digest) in new.items()}
        if named.items() <= self._known.items():
            return
        self._known = dict(list({**self._known, **named}.items())[-_MOST_REMEMBERED:])
        write_cached(self._path, json.dumps(self._known))

    def _key(self, path: Path, seen: FileIdentity) -> str:
        """SHA-256 have no prefix: they were there first."""
        return cache_key(path, seen) if self._kind == "sha256" else f"{self._kind}|{cache_key(path, seen)}"


def cache_key(path: Path, seen: FileIdentity) -> str:
    """What is remembered about a file goes by this name: its place, and who it was there."""
    if seen.version:
        return "|".join(map(str, (mount_name(path), *seen)))
    return "|".join(map(str, (path.resolve(), *seen[:-1])))
