"""Files by their content: `files/<aa>/<sha256>`, once for all models, and a folder of links for each model.

Files are never changed once they are there, so a model's folder may share its bytes with the store and with other
models. Where the file system knows no hard links they are copied.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path

from smelt.errors import CorruptFile, OutputError
from smelt.files.positioned import BINARY

__all__ = ["ContentStore", "copy_in"]

_CHUNK = 1 << 20
_FILE = re.compile(r"([0-9a-f]{64})(\.new)?")


class ContentStore:
    """The folder of files."""

    def __init__(self, folder: Path):
        self.folder = folder

    def path(self, sha256: str) -> Path:
        """Where the bytes with this hash lie, or will."""
        return self.folder / sha256[:2] / sha256

    def share(self, file: Path, sha256: str) -> None:
        """Make a finished file and the stored one with the same bytes into one."""
        stored = self.path(sha256)
        stored.parent.mkdir(parents=True, exist_ok=True)
        if stored.exists():
            spare = file.with_name(f"{file.name}.shared")
            if _link(stored, spare):
                spare.replace(file)
        elif not _link(file, stored):
            spare = stored.with_name(f"{sha256}.new")
            shutil.copyfile(file, spare)
            spare.replace(stored)

    def sweep(self, wanted: Collection[str]) -> int:
        """Remove what no model needs, of files that are named as ours are; gives the number of those that are gone."""
        gone = [path for path in self.folder.glob("??/*") if path.name not in wanted and _is_ours(path)]
        for path in gone:
            path.unlink(missing_ok=True)
        return len(gone)


def copy_in(source: Path, target: Path, limit: int) -> tuple[str, int]:
    """Copy a plain file, never more than `limit` bytes, onto the disk; gives the SHA-256 of what was written."""
    try:
        descriptor = os.open(source, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | BINARY)
    except OSError as error:
        raise CorruptFile(f"{source}: cannot be read ({error.strerror})") from None
    digest, size, buffer = hashlib.sha256(), 0, memoryview(bytearray(_CHUNK))
    try:
        with open(descriptor, "rb", buffering=0) as reader, open(target, "xb", buffering=0) as writer:
            while count := reader.readinto(buffer):
                size += count
                if size > limit:
                    raise CorruptFile(f"{source.name}: is larger than the {limit:,} bytes that it may have")
                digest.update(buffer[:count])
                writer.write(buffer[:count])
            os.fsync(writer.fileno())
    except OSError as error:
        raise OutputError(f"{target}: cannot be written ({error.strerror})") from None
    return digest.hexdigest(), size


def _is_ours(path: Path) -> bool:
    form = _FILE.fullmatch(path.name)
    return form is not None and path.parent.name == form[1][:2] and path.is_file() and not path.is_symlink()


def _link(old: Path, new: Path) -> bool:
    try:
        os.link(old, new)
    except OSError:
        return False
    return True
