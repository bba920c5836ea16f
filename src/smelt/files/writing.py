"""Files and folders that Smelt writes: there whole or not at all, held by one process at a time, and never in the place
of what is not Smelt's own.

What is written is made beside its place under a hidden name, then renamed: the one place where Smelt does so. What
fails half-way leaves what was there before, and no rest. `--force` may replace a folder that Smelt wrote, which has
Smelt's own file in it, or an empty one: a word too few in `-o` must not cost somebody's documents.

A process that ends in whatever way lets go of what it holds. One that was just killed may take a moment to do so, and
so may a process that it had started: a second command right after `kill -9` waits for that moment instead of failing.
Where the system has no such locks (Windows), one run at a time has to do.
"""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from smelt.caller import option
from smelt.errors import OutputError, SmeltError
from smelt.files.reading import find_json_table

__all__ = [
    "OutputMark",
    "atomic_file",
    "atomic_folder",
    "check_overwrite",
    "check_writable",
    "exclusive",
    "fsync_folder",
    "is_free",
    "lock_folder",
    "locked",
    "move_into_place",
    "recover_swap",
    "refuse_url",
    "reserve",
    "swap_folder",
    "try_lock",
    "url_scheme",
    "write_file",
    "write_json",
]

_PATIENCE = 3.0
"""Seconds that a lock is waited for, since a process that was killed may take a moment to let go."""
_LOOK_EVERY = 0.05
_LONGEST = 3600.0
"""Seconds that `exclusive` waits for another run."""


_URL = re.compile(r"(s3|gs|az|https?|hf):/+(?=[^/])")


def url_scheme(place: str | Path) -> str | None:
    """`s3` of s3://bucket/name (a Path keeps one of its slashes only); None of a path."""
    found = _URL.match(str(place))
    return found[1] if found else None


def refuse_url(place: Path) -> None:
    """Refuse a place in a store: a folder called `s3:` is what nobody wants."""
    if url_scheme(place) is not None:
        url = str(place).replace(":/", "://", 1)
        raise OutputError(f"{url}: this is written to a folder or file of this machine; `smelt merge` writes to stores")


@contextmanager
def atomic_file(path: Path, *, fault: str = "cannot be written", durable: bool = True) -> Iterator[Path]:
    """A path to write a file at, which becomes `path` at the end of the block; its folder is made where it is missing.

    An older file of that name is replaced. A failure of the system is an `OutputError` that says `fault`. The content
    survives a power cut from then on, unless `durable` is false: waiting for the disk takes time.
    """
    refuse_url(path)
    draft = _draft(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield draft
        if durable:
            _fsync(draft, os.O_RDWR if os.name == "nt" else os.O_RDONLY)  # Windows wants the right to write for it
        os.replace(draft, path)
    except OSError as error:
        raise OutputError(f"{path}: {fault} ({_reason(error)})") from None
    finally:
        with suppress(OSError):  # renamed, or never made
            os.unlink(draft)


def write_file(
    path: Path,
    content: str | bytes | Iterable[bytes | memoryview],
    *,
    fault: str = "cannot be written",
    durable: bool = True,
) -> Path:
    """Write a text (UTF-8, its line ends as they are), bytes, or pieces of them one after another."""
    pieces = [content.encode()] if isinstance(content, str) else [content] if isinstance(content, bytes) else content
    with atomic_file(path, fault=fault, durable=durable) as draft, open(draft, "xb") as file:
        for piece in pieces:
            file.write(piece)
    return path


def write_json(path: Path, content: Any, *, indent: int | None = 1, fault: str = "cannot be written") -> Path:
    """Write plain data as JSON, with a line's end at its end."""
    return write_file(path, json.dumps(content, indent=indent) + "\n", fault=fault)


@contextmanager
def atomic_folder(folder: Path, *, replace: bool = False, fault: str = "cannot be written there") -> Iterator[Path]:
    """An empty folder to fill, which becomes `folder` at the end of the block.

    An empty one that is there goes; one that holds something is kept, and an error, unless it is to be replaced.
    """
    refuse_url(folder)
    place = folder.resolve()
    draft = _draft(place)
    try:
        draft.mkdir(parents=True)
        yield draft
        if replace:
            swap_folder(draft, place, _draft(place))
        else:
            os.rename(draft, place)
    except OSError as error:
        raise OutputError(f"{folder}: {fault} ({_reason(error)})") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _reason(error: OSError) -> str:
    """What the system refused. Where a folder was copied, what it refused first: there is a text for every file."""
    if isinstance(error, shutil.Error):
        first = re.search(r"\[Errno \d+\] ([^:'\"]+)", str(error))
        return first[1].strip() if first else str(error)
    return error.strerror or str(error)


def check_writable(place: Path, fault: str = "cannot be written there") -> None:
    """Refuse a place that this user cannot write to, before any work is done. Its folder need not exist yet."""
    refuse_url(place)
    try:
        above = next(one for one in (place, *place.absolute().parents) if one.exists())
    except OSError as error:
        raise OutputError(f"{place}: {fault} ({_reason(error)})") from None
    if not os.access(above, os.W_OK) or (above != place and not above.is_dir()):
        raise OutputError(f"{place}: {fault} ({above} is nothing that this user can write to)")


def swap_folder(draft: Path, place: Path, aside: Path) -> None:
    """Give a finished folder its name. What has the name goes `aside`, and is removed when the new one is there."""
    if place.exists():
        os.rename(place, aside)
    os.rename(draft, place)
    if aside.exists():
        shutil.rmtree(aside)


def recover_swap(place: Path, aside: Path) -> None:
    """End a swap whose process was killed: what is aside goes, or gets its name back if the new one is not there."""
    if place.exists():
        shutil.rmtree(aside)
    else:
        os.rename(aside, place)


def move_into_place(draft: Path, place: Path) -> None:
    """Give a finished file or folder its name, for good: after this it survives a power cut."""
    if place.is_dir():
        shutil.rmtree(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    if draft.is_dir():
        fsync_folder(draft)
    os.replace(draft, place)
    fsync_folder(place.parent)


def fsync_folder(folder: Path) -> None:
    """After this, names in a folder survive a power cut. Windows opens no folder, so there it is left to the system."""
    if hasattr(os, "O_DIRECTORY"):
        _fsync(folder, os.O_RDONLY | os.O_DIRECTORY)


def _fsync(path: Path, flags: int) -> None:
    descriptor = os.open(path, flags)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _draft(path: Path) -> Path:
    """A name beside a path that nobody else uses."""
    return path.with_name(f".{path.name}.{os.urandom(4).hex()}")


def reserve(descriptor: int, start: int, end: int) -> None:
    """Room for some bytes of an open file, where the file system can do that without writing.

    It then need not look for blocks while it writes: on ext4 writing takes three tenths less processor time. And a disk
    that is too full says so.
    """
    import ctypes

    if not sys.platform.startswith("linux") or start >= end:
        return
    try:
        fallocate = ctypes.CDLL(None, use_errno=True).fallocate  # os.posix_fallocate would write zeros if it must
    except (OSError, AttributeError):
        return
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    if fallocate(descriptor, 0, start, end - start) and ctypes.get_errno() in (errno.ENOSPC, errno.EDQUOT):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


class OutputMark(NamedTuple):
    """The file by which Smelt knows what it wrote: a JSON table with these keys, since others use such names too."""

    name: str
    keys: tuple[str, ...]

    def is_on(self, folder: Path) -> bool:
        """Whether a folder has it."""
        content = find_json_table(folder / self.name)
        return content is not None and content.keys() >= set(self.keys)


def is_free(folder: Path) -> bool:
    """Whether there is nothing at a place that could be lost: no folder, or an empty one."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def check_overwrite(folder: Path, mark: OutputMark, *, force: bool) -> None:
    """Refuse a place that is taken, unless `force` is given and what is there is Smelt's own."""
    if is_free(folder):
        return
    if not folder.is_dir():
        raise OutputError(f"{folder} is a file; the output is a folder")
    if not mark.is_on(folder):
        raise OutputError(
            f"{folder} already exists and is not an output of this kind (it has no {mark.name} that Smelt wrote), so "
            f"it is kept, with or without {option('force')}; choose another folder, or remove this one yourself"
        )
    if not force:
        raise OutputError(
            f"{folder} already exists; it is kept. Choose another folder, or write {option('force')} to replace it"
        )


def try_lock(descriptor: int, patience: float | None = None) -> bool:
    """Hold what is open under the descriptor until it is closed; False if another process still has it after
    `patience` seconds, three if nothing is said.
    """
    try:
        import fcntl
    except ImportError:
        return True
    until = time.monotonic() + (_PATIENCE if patience is None else patience)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if time.monotonic() >= until:
                return False
        time.sleep(_LOOK_EVERY)


def lock_folder(folder: Path, busy: SmeltError) -> int:
    """An open folder that no other process can have until the descriptor is closed; raises `busy` where one has it."""
    descriptor = os.open(folder if hasattr(os, "O_DIRECTORY") else os.devnull, os.O_RDONLY)  # Windows opens no folder
    if not try_lock(descriptor):
        os.close(descriptor)
        raise busy
    return descriptor


@contextmanager
def locked(descriptor: int) -> Iterator[None]:
    """Hold what is open under the descriptor in here, however long it takes to get it."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def exclusive(lock: Path, doing: str, waits: Callable[[], None] | None = None) -> Iterator[None]:
    """Be the only run that holds the file `lock`; `waits` is called once if another one has it.

    The file is gone at the end. Another run that has it for an hour is an error, which says what it is `doing`.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _awaited(lock, doing, waits)
    except OSError as error:
        raise OutputError(f"{lock}: the file cannot be used ({error.strerror})") from None
    try:
        yield
    finally:
        with suppress(OSError):
            os.unlink(lock)  # while it is held, so that it is ours
        os.close(descriptor)


def _awaited(lock: Path, doing: str, waits: Callable[[], None] | None) -> int:
    """The open file `lock`, held; the one that lies there, not one that its last holder has removed."""
    until, told = time.monotonic() + _LONGEST, False
    while time.monotonic() < until:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o666)
        held = try_lock(descriptor, 0)
        if held and os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)
        if held:
            continue
        if waits is not None and not told:
            waits()
        told = True
        time.sleep(_LOOK_EVERY)
    raise OutputError(
        f"{lock}: another run has been {doing} for {_LONGEST / 60:.0f} minutes; "
        "wait until it ends, then run again to get its result"
    )
