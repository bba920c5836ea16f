"""What a backup says of itself: `backup.json`, which is written last, and a list with a line for every file.

    backup.json          the format, when it was made, and the SHA-256 of each of these:
    rows/<table>.jsonl   the rows of each table (rows.py)
    files (.jsonl)       path, bytes and SHA-256 of every file of the hub
    files/ labels/ indexes/ graphs/    the files, under the names that they have in the hub

Nothing that a backup says is believed: a path has one of the forms that a hub writes, no part of it is a link, a size
is bounded before anything is read, and every byte is compared with its hash.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from smelt.display.blocks import Lines
from smelt.display.shown import Shown
from smelt.errors import CorruptFile
from smelt.files.reading import parse_json, read_json_table
from smelt.files.writing import OutputMark, write_json
from smelt.hub.backup.rows import TABLES

__all__ = ["FILES", "MARK", "Backup", "Filed", "Manifest", "Piece", "plain_file"]

MARK = OutputMark("backup.json", ("smelt_backup", "revision", "rows", "files"))
FILES = "files.jsonl"
_FORMAT = 1
_LINE = 2000
_HASH = re.compile(r"[0-9a-f]{64}")
_PATHS = re.compile(
    r"files/([0-9a-f]{2})/\1[0-9a-f]{62}"
    r"|labels/[0-9a-f]{64}\.(index|safetensors)"
    r"|indexes/[0-9]{12}-[0-9a-f]{12}\.segment"
    r"|graphs/[0-9a-f]{64}/([A-Za-z0-9_-][A-Za-z0-9._-]{0,99}/)?[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}"
)


class Filed(NamedTuple):
    """A file of the hub: its path there and in the backup, its bytes and their hash."""

    path: str
    size: int
    sha256: str


class Piece(NamedTuple):
    """A file of the backup's own: how many lines, bytes, and their hash."""

    lines: int
    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What is in a backup."""

    hub: str
    """Its name."""
    mark: str
    """The hub's mark, by which a later backup of the same hub is known."""
    revision: str
    """Of the tables."""
    smelt: str
    made: str
    rows: dict[str, Piece]
    files: Piece
    bytes: int
    """Of all files together."""

    def save(self, folder: Path) -> None:
        write_json(folder / MARK.name, {"smelt_backup": _FORMAT, **asdict(self)})

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of a backup; whatever is wrong with it is one error."""
        path = plain_file(folder, MARK.name)
        content = read_json_table(path)
        if content.pop("smelt_backup", None) != _FORMAT:
            raise CorruptFile(f"{path}: is no backup of a hub that this Smelt can read")
        try:
            rows = {str(table): _piece(words) for table, words in content.pop("rows").items()}
            files = _piece(content.pop("files"))
            found = cls(rows=rows, files=files, **content)
            texts = (found.hub, found.mark, found.revision, found.smelt, found.made)
            if not all(isinstance(word, str) for word in texts) or type(found.bytes) is not int:
                raise TypeError
        except (AttributeError, KeyError, TypeError, ValueError):
            raise CorruptFile(f"{path}: does not say what is in the backup") from None
        if set(found.rows) != set(TABLES):
            raise CorruptFile(f"{path}: has the tables {', '.join(sorted(found.rows))}; a hub has {', '.join(TABLES)}")
        return found

    def listed(self, folder: Path) -> Iterator[Filed]:
        """The files, as they are listed; each once, under a path that a hub writes."""
        path, seen, count = plain_file(folder, FILES), "", 0
        with path.open("rb") as lines:
            while line := lines.readline(_LINE):
                one = _filed(line, f"{path.name}, line {count + 1}")
                if one.path <= seen:  # they are sorted, so that none comes twice
                    raise CorruptFile(f"{path.name}: {one.path} is out of order")
                seen, count = one.path, count + 1
                yield one
        if count != self.files.lines:
            raise CorruptFile(f"{path.name}: lists {count:,} files, and should list {self.files.lines:,}")


@dataclass(frozen=True)
class Backup(Shown):
    """A backup that was made, or from which a hub was made."""

    place: str
    """The backup's folder, or where the new hub is."""
    hub: str
    made: str
    """When its rows were read."""
    models: int
    labels: int
    files: int
    bytes: int

    @classmethod
    def of(cls, place: str, manifest: Manifest) -> Backup:
        rows = manifest.rows
        models, labels = rows["models"].lines, rows["labels"].lines
        return cls(place, manifest.hub, manifest.made, models, labels, manifest.files.lines, manifest.bytes)

    def shown(self) -> list[Lines]:
        what = f"{self.models:,} models, {self.labels:,} labels, {self.files:,} files, {self.bytes / 1e6:,.1f} MB"
        return [Lines([f"{self.place}: the hub {self.hub!r} as of {self.made[:19]} UTC, {what}"])]


def plain_file(folder: Path, path: str) -> Path:
    """A file in a folder, if neither it nor a folder on the way to it is a link."""
    found = folder
    for part in Path(path).parts:
        found /= part
        try:
            mode = found.lstat().st_mode
        except OSError as error:
            raise CorruptFile(f"{folder}: {path} cannot be read ({error.strerror})") from None
        if stat.S_ISLNK(mode):
            raise CorruptFile(f"{folder}: {found.relative_to(folder)} is a link, which no backup has")
    if not stat.S_ISREG(mode):
        raise CorruptFile(f"{folder}: {path} is no plain file")
    return found


def _piece(words: Any) -> Piece:
    count, size, sha256 = words
    if type(count) is not int or type(size) is not int or min(count, size) < 0 or not _HASH.fullmatch(sha256):
        raise ValueError
    return Piece(count, size, sha256)


def _filed(line: bytes, where: str) -> Filed:
    words = parse_json(line, where)
    match words:
        case [str(path), int(size), str(sha256)] if _PATHS.fullmatch(path) and _HASH.fullmatch(sha256) and size >= 0:
            if path.startswith("files/") and not path.endswith(sha256):
                raise CorruptFile(f"{where}: {path} is named by another hash than its own")
            return Filed(path, size, sha256)
    raise CorruptFile(f"{where}: is no file of a hub: {json.dumps(words)[:120]}")
