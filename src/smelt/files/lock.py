"""Files and folders that one process at a time holds.

A process that ends in whatever way lets go. One that was just killed may take a moment to do so, and so may a process
that it had started: a second command right after `kill -9` waits for that moment instead of failing. Where the system
has no such locks (Windows), one run at a time has to do.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from smelt.errors import OutputError, SmeltError

__all__ = ["exclusive", "lock_folder", "locked", "try_lock"]

_PATIENCE = 3.0
_LOOK_EVERY = 0.05
_LONGEST = 3600.0
"""Seconds that `exclusive` waits for another run."""


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
    descriptor = os.open(folder, os.O_RDONLY)
    if not try_lock(descriptor):
        os.close(descriptor)
        raise busy
    return descriptor


@contextlib.contextmanager
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


@contextlib.contextmanager
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
        with contextlib.suppress(OSError):
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
