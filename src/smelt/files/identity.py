"""Who a file is: what tells that a path still has the very bytes that it had.

Size and time of change are not enough, since whoever edits a file can put its time back. The system's own time (ctime)
moves with every write and cannot be set. It moves too when a file gets another name, owner or rights; a hard link that
is made or removed, as the hub's store does, is known by the number of names and is no change of the bytes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from smelt.errors import CorruptFile, InputChanged

__all__ = ["FileIdentity", "check_unchanged", "file_identity", "identities"]

_SHOWN = 5


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
