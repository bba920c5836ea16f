"""What lies in the cache, from names, sizes and times alone: no file is opened, so that looking is no use of it.

An *entry* is what is kept under one name: a file, or a folder with all that is below it, and what belongs to it (its
lock, the part of it that is being made). Links are never followed. What is not named as the table of kinds says is
nobody's entry: it is counted and left alone.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from smelt.errors import CorruptFile, OutputError, RecipeError, unknown
from smelt.files.cache import CACHE_KINDS, CacheKind, cache_folder

__all__ = ["CacheEntry", "CacheListing", "KindListing", "age_in_seconds", "cache_entries", "list_cache"]

_LEFT_OVER = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}(?P<removed>\.removed)?")
"""A file or folder in the making (`smelt.files.writing`), or one on its way out (`cache_cleaning`)."""
_AGE = re.compile(r"(\d+(?:\.\d+)?)\s*([hdw])")
_SECONDS = {"h": 3600.0, "d": 86_400.0, "w": 604_800.0}


@dataclass(frozen=True)
class CacheEntry:
    """One thing in the cache."""

    kind: str
    name: str
    paths: tuple[Path, ...]
    bytes: int
    made: float
    """When the oldest of its files was written, in seconds since 1970."""
    used: float
    """When one of them was last read or written. Many systems note the first reading of a day only, some none."""
    unfinished: bool = False
    """Whether it is being made, or was when its process ended."""

    def age(self, now: float) -> float:
        """Seconds since its last use."""
        return max(0.0, now - self.used)


@dataclass(frozen=True)
class KindListing:
    """All entries of one kind together. Times are in UTC, as ISO 8601 writes them; None where there is nothing."""

    kind: str
    what: str
    entries: int
    bytes: int
    first: str | None
    last: str | None


@dataclass(frozen=True)
class CacheListing:
    """The cache, kind by kind. `others` are the names of what lies there and is not Smelt's own."""

    folder: Path
    kinds: list[KindListing]
    others: list[str]

    @property
    def bytes(self) -> int:
        """Of all kinds together."""
        return sum(one.bytes for one in self.kinds)


def list_cache(kinds: Sequence[str] | None = None, *, older_than: str | float | None = None) -> CacheListing:
    """What lies in the cache, by kind: how much, how large, and from when to when it was used.

    `kinds` are the ones to list, all by default. With `older_than` only that counts which was not used for so long:
    a number of seconds, or a text such as `30d`, `12h` or `2w`.
    """
    chosen = kinds_named(kinds)
    found = list(cache_entries(chosen, older_than=age_in_seconds(older_than)))
    listed = []
    for kind in chosen:
        own = [one for one in found if one.kind == kind]
        first, last = (min(one.made for one in own), max(one.used for one in own)) if own else (None, None)
        size = sum(one.bytes for one in own)
        listed.append(KindListing(kind, CACHE_KINDS[kind].what, len(own), size, _moment(first), _moment(last)))
    return CacheListing(cache_folder(), listed, _others() if kinds is None else [])


def kinds_named(names: Sequence[str] | None) -> list[str]:
    """The kinds that were asked for, in the order of the table; all where nothing was said."""
    for name in names or ():
        if name not in CACHE_KINDS:
            raise RecipeError(unknown("kind of cache", name, CACHE_KINDS))
    return [kind for kind in CACHE_KINDS if names is None or kind in names]


def age_in_seconds(age: str | float | None) -> float | None:
    """`30d` as seconds; hours, days and weeks are understood."""
    if isinstance(age, str):
        read = _AGE.fullmatch(age.strip().lower())
        if read is None:
            raise RecipeError(f"an age is a number with h, d or w (hours, days, weeks), as 30d; got {age!r}")
        return float(read[1]) * _SECONDS[read[2]]
    if age is not None and not 0 <= age < float("inf"):
        raise RecipeError(f"an age is a number of seconds, 0 or more, or a text such as 30d; got {age!r}")
    return age


def cache_entries(kinds: Collection[str], *, older_than: float | None = None) -> Iterator[CacheEntry]:
    """The entries of these kinds, by kind and name, that were last used at least `older_than` seconds ago."""
    now = datetime.now(UTC).timestamp()
    root = real_folder()
    for kind in kinds:
        about = CACHE_KINDS[kind]
        groups: dict[tuple[str, bool], list[Path]] = {}
        for path in _inside(root / kind if about.in_folder else root):
            if (named := entry_name(about, path.name)) is not None and not path.is_symlink():
                groups.setdefault(named, []).append(path)
        for (name, left_over), paths in sorted(groups.items()):
            entry = _entry(kind, name, paths, left_over)
            if entry is not None and (older_than is None or entry.age(now) >= older_than):
                yield entry


def real_folder() -> Path:
    """The cache folder, which may itself be a link to a larger disk."""
    try:
        return cache_folder().resolve()
    except (OSError, RuntimeError) as error:
        raise OutputError(f"{cache_folder()}: the cache folder cannot be used ({error})") from None


def entry_name(kind: CacheKind, name: str) -> tuple[str, bool] | None:
    """The entry that something of this name belongs to, and whether it is only left over; None if it is no such kind's.

    A thing that was being removed belongs to no other entry than itself.
    """
    left_over = _LEFT_OVER.fullmatch(name)
    own = re.fullmatch(kind.names, left_over["name"] if left_over else name)
    if own is None:
        return None
    return (name, True) if left_over else (own[1], False)


def is_removed(name: str) -> bool:
    """Whether somebody began to remove this and did not come to the end."""
    left_over = _LEFT_OVER.fullmatch(name)
    return left_over is not None and left_over["removed"] is not None


def _entry(kind: str, name: str, paths: Sequence[Path], left_over: bool) -> CacheEntry | None:
    """What is known of an entry; None where it went away meanwhile."""
    found = [one for path in paths for one in _files(path)]
    if not found:
        return None
    about = CACHE_KINDS[kind]
    unfinished = left_over and not is_removed(name)
    if about.ends_with and not any(re.fullmatch(about.ends_with, path.name) for path in paths):
        unfinished = True
    return CacheEntry(
        kind,
        name,
        tuple(sorted(paths)),
        sum(one.st_size for one in found if stat.S_ISREG(one.st_mode)),
        min(one.st_mtime for one in found),
        max(max(one.st_atime, one.st_mtime) if stat.S_ISREG(one.st_mode) else one.st_mtime for one in found),
        unfinished,
    )


def _files(path: Path) -> Iterator[os.stat_result]:
    """Of every file below a path, or of the path itself where there is none."""
    try:
        own = path.lstat()
    except OSError:
        return
    below = [one for child in _inside(path) for one in _files(child)] if stat.S_ISDIR(own.st_mode) else []
    yield from below or [own]


def _inside(folder: Path) -> list[Path]:
    """What lies in a folder; nothing where there is none, or only a link to one."""
    try:
        return [] if folder.is_symlink() else sorted(folder.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise CorruptFile(f"{folder}: the folder of the cache cannot be read ({error.strerror})") from None


def _others() -> list[str]:
    """Names in the cache folder and in those of the kinds that no kind has."""
    root = real_folder()
    at_top = [about for about in CACHE_KINDS.values() if not about.in_folder]
    folders = {kind: about for kind, about in CACHE_KINDS.items() if about.in_folder}
    found = []
    for path in _inside(root):
        if path.name in folders and path.is_dir() and not path.is_symlink():
            own = folders[path.name]
            strange = [one for one in _inside(path) if one.is_symlink() or entry_name(own, one.name) is None]
            found += [f"{path.name}/{one.name}" for one in strange]
        elif path.is_symlink() or all(entry_name(about, path.name) is None for about in at_top):
            found.append(path.name)
    return found


def _moment(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
