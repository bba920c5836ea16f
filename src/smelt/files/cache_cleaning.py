"""Removing from the cache: by kind and age, never what a running process uses, and nothing outside of its folder.

An entry first gets another name, in one step: whoever looks for it finds it whole or not at all, and where the removal
is interrupted (Ctrl-C, a power cut) the next one removes the rest. In use is

- what a process has locked, or a file of which it has open or mapped into its memory (the second where there is /proc);
- what is being made: it counts as given up when nothing has changed for an hour.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from smelt.errors import OutputError
from smelt.files.cache import CACHE_KINDS, cache_folder
from smelt.files.cache_contents import (
    CacheEntry,
    age_in_seconds,
    cache_entries,
    is_removed,
    kinds_named,
    real_folder,
)
from smelt.files.writing import try_lock

__all__ = ["CleanedCache", "clean_cache"]


@dataclass(frozen=True)
class CleanedCache:
    """What was removed from the cache, or would be with `dry_run`, and what was kept because it is in use."""

    folder: Path
    dry_run: bool
    removed: list[CacheEntry]
    kept: list[tuple[CacheEntry, str]]
    """Each with the reason."""

    @property
    def bytes(self) -> int:
        """Of all that was removed."""
        return sum(one.bytes for one in self.removed)


def clean_cache(
    kinds: Sequence[str] | None = None, *, older_than: str | float | None = None, dry_run: bool = False
) -> CleanedCache:
    """Remove entries from the cache: those of some kinds, those that were not used for long, or all.

    `kinds` are as `smelt.list_cache` names them, all by default. With `older_than` (`30d`, `12h`, `2w`, or seconds)
    only entries go that were not used for so long. What a running process uses is kept. With `dry_run` nothing is
    removed. Everything in the cache is made again when it is needed.
    """
    root = real_folder()
    found = list(cache_entries(kinds_named(kinds), older_than=age_in_seconds(older_than)))
    cleaned = CleanedCache(cache_folder(), dry_run, [], [])
    opened = _open_files(root) if found else frozenset()
    for entry in found:
        reason = _in_use(entry, opened)
        if reason is None and not dry_run:
            reason = _remove(entry)
        if reason is None:
            cleaned.removed.append(entry)
        else:
            cleaned.kept.append((entry, reason))
    return cleaned


def _in_use(entry: CacheEntry, opened: Iterable[str]) -> str | None:
    """Why an entry must stay; None if nobody uses it."""
    if entry.unfinished and entry.age(time.time()) < CACHE_KINDS[entry.kind].patience:
        return "it is being made"
    below = [f"{path}{os.sep}" for path in entry.paths]
    whole = {str(path) for path in entry.paths}
    if any(file in whole or file.startswith(tuple(below)) for file in opened):
        return "a process has it open"
    with contextlib.ExitStack() as locks:
        return None if _held(entry, locks) else "a process has it locked"


def _remove(entry: CacheEntry) -> str | None:
    """Take an entry away while its locks are held; the reason where that is not possible."""
    with contextlib.ExitStack() as locks:
        if not _held(entry, locks):
            return "a process has it locked"
        aside = []
        try:
            for path in entry.paths:
                if is_removed(path.name):
                    aside.append(path)
                    continue
                away = path.with_name(f".{path.name}.{os.urandom(4).hex()}.removed")
                with contextlib.suppress(FileNotFoundError):
                    os.rename(path, away)
                    aside.append(away)
            for path in aside:
                _delete(path)
        except OSError as error:
            raise OutputError(
                f"{error.filename or entry.paths[0]}: cannot be removed from the cache ({error.strerror})"
            ) from None
    return None


def _delete(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)  # links in it are removed and not followed
    else:
        path.unlink(missing_ok=True)


def _held(entry: CacheEntry, locks: contextlib.ExitStack) -> bool:
    """Hold everything of an entry; False if a process has some of it."""
    for path in (below for top in entry.paths for below in _all_below(top)):
        descriptor = _opened(path)
        if descriptor is None:
            continue
        locks.callback(os.close, descriptor)
        if not try_lock(descriptor, 0) or not _no_record_lock(descriptor):
            return False
    return True


def _opened(path: Path) -> int | None:
    """For locks, which some systems give for files that can be written only; None if it is gone or not ours to open."""
    for way in (os.O_RDWR, os.O_RDONLY):  # a folder, and what we may not write, can be opened by the second alone
        with contextlib.suppress(OSError):
            return os.open(path, way | getattr(os, "O_NOFOLLOW", 0))
    return None


def _all_below(path: Path) -> Iterator[Path]:
    yield path
    if path.is_dir() and not path.is_symlink():
        for folder, folders, files in os.walk(path):
            yield from (one for name in (*folders, *files) if not (one := Path(folder, name)).is_symlink())


def _no_record_lock(descriptor: int) -> bool:
    """Whether nobody has locked a part of the file, as SQLite does."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a folder
        return True
    fcntl.lockf(descriptor, fcntl.LOCK_UN)
    return True


def _open_files(root: Path) -> frozenset[str]:
    """Files below a folder that a process of this machine has open or mapped, as far as we may look."""
    found, below = set(), f"{root}{os.sep}"
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for link in os.scandir(process / "fd"):
                with contextlib.suppress(OSError):
                    found.add(os.readlink(link.path))
        with contextlib.suppress(OSError):
            lines = (process / "maps").read_text(errors="surrogateescape").splitlines()
            found |= {line[at:] for line in lines if (at := line.find(below)) >= 0}
    return frozenset(path for path in found if path.startswith(below))
