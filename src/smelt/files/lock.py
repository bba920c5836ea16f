"""A file or folder that one run at a time holds.

A run that ends in whatever way lets go. One that was just killed may take a moment to do so, and so may a process that
it had started: a second command right after `kill -9` waits for that moment instead of failing.
"""

from __future__ import annotations

import time

__all__ = ["hold"]

_PATIENCE = 3.0
_LOOK_EVERY = 0.05


def hold(descriptor: int) -> bool:
    """Hold what is open under the descriptor until it is closed; False if another run keeps it."""
    try:
        import fcntl
    except ImportError:  # not on Windows, where one run at a time has to do
        return True
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if time.monotonic() > until:
                return False
        time.sleep(_LOOK_EVERY)
