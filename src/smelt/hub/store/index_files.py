"""The files of a hub's index, `indexes/<number>-<random>.segment` (labels/segment_file.py has what is in them).

They come and go inside write transactions of the hub's database alone. The number says which file is newer: a label
that was made anew lies in the newest. Killed at any moment, the folder holds the old files, the new one, or both: equal
digests are equal labels, so that both answer alike, and the next sweep removes what nobody needs.

Eight files of like size become one of eight times the size, up to 4,096 models: a label is written five times in all,
and 100,000 models lie in some fifty files. A file of which less than half is still in use is written anew without the
rest.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from smelt.errors import CorruptFile
from smelt.files.writing import move_into_place
from smelt.hub.labels.segment import MOST, Segment

__all__ = ["IndexFiles", "OpenIndexes"]

_NAME = re.compile(r"([0-9]{12})-[0-9a-f]{12}\.segment")
_TOGETHER = 8
"""Files of like size that become one."""


@dataclass(frozen=True, eq=False)
class OpenIndexes:
    """The files as they lie there at one moment, open."""

    segments: tuple[Segment, ...]
    """The oldest first."""
    homes: dict[str, tuple[int, int]]
    """By a label's digest: the number of its segment, and its place there."""
    broken: dict[str, str]
    """Files that cannot be read, and why."""


class IndexFiles:
    """The folder of a hub's segments, and what this process has open of it."""

    def __init__(self, folder: Path):
        self.folder = folder
        self._lock = threading.Lock()
        self._listed: list[str] | None = None
        self._open = OpenIndexes((), {}, {})

    def names(self) -> list[str]:
        """The files, the oldest first."""
        try:
            return sorted(one.name for one in os.scandir(self.folder) if _NAME.fullmatch(one.name) and one.is_file())
        except FileNotFoundError:
            return []

    def open(self) -> OpenIndexes:
        """What is there now; files that were open stay so."""
        with self._lock:
            while (names := self.names()) != self._listed:
                known = {one.path.name: one for one in self._open.segments if one.path is not None}
                segments, broken = [], {}
                for name in names:
                    try:
                        segments.append(known.get(name) or Segment.open(self.folder / name))
                    except CorruptFile as error:
                        broken[name] = str(error)
                if broken and self.names() != names:  # somebody merged them meanwhile
                    continue
                segments.sort(key=_age)
                homes = {
                    digest: (number, place)
                    for number, one in enumerate(segments)
                    for place, digest in enumerate(one.names)
                }
                self._listed, self._open = names, OpenIndexes(tuple(segments), homes, broken)
            return self._open

    def add(self, draft: Path) -> Path:
        """Give a finished file its place as the newest. Only in a write transaction."""
        names = self.names()
        newest = int(names[-1].partition("-")[0]) if names else 0
        return self._place(draft, newest + 1)

    def replace(self, merged: Path | None, before: Collection[Path]) -> None:
        """Put a merged file in the place of others. Only in a write transaction."""
        if merged is not None:
            self._place(merged, max(int(path.name.partition("-")[0]) for path in before))
        for path in before:
            path.unlink(missing_ok=True)

    def _place(self, draft: Path, number: int) -> Path:
        place = self.folder / f"{number:012d}-{secrets.token_hex(6)}.segment"
        move_into_place(draft, place)
        return place

    def sweep(self, wanted: Collection[str]) -> None:
        """Remove files that hold none of these labels, or only what newer ones hold. Only in a write transaction."""
        found = self.open()
        used = {found.homes[digest][0] for digest in wanted if digest in found.homes}
        for number, one in enumerate(found.segments):
            if number not in used and one.path is not None:
                one.path.unlink(missing_ok=True)
        if all(digest in found.homes for digest in wanted):  # else a broken one may still be spoken of by errors
            for name in found.broken:
                with suppress(OSError):
                    (self.folder / name).unlink()

    def due(self, wanted: Collection[str], damaged: Collection[Path]) -> list[Segment]:
        """Which files should become one now; none, most of the time."""
        found = self.open()
        live = [0] * len(found.segments)
        for digest in wanted:
            if digest in found.homes:
                live[found.homes[digest][0]] += 1
        groups: dict[tuple[str, int], list[Segment]] = {}
        for one, count in zip(found.segments, live, strict=True):
            if one.path in damaged:
                continue
            if 2 * count < one.models:
                return [one]
            if count * _TOGETHER <= MOST:
                group = groups.setdefault((one.key(0).graph, _level(count)), [])
                group.append(one)
                if len(group) == _TOGETHER:
                    return group
        return []


def _age(one: Segment) -> tuple[str, int]:
    """By number; of those with one number, what was merged last has the most models."""
    name = one.path.name if one.path is not None else ""
    return name.partition("-")[0], one.models


def _level(count: int) -> int:
    """0 for 1 to 7 models, 1 for 8 to 63, ..."""
    level = 0
    while count >= _TOGETHER ** (level + 1):
        level += 1
    return level
