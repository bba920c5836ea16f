"""What goes wrong between here and a server, and asking again as long as that may help."""

from __future__ import annotations

import errno
import random
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["Fault", "NotThere", "Passing", "Refused", "Unreachable", "as_os_error", "asked_again"]

T = TypeVar("T")

_FIRST, _LONGEST = 0.2, 20.0
"""Seconds to wait before the second request, and at most before any."""
_LONGEST_ASKED = 120.0
"""The same where the server says how long."""
_TRIES = 9
"""Requests in all: about a minute's."""
_TRIES_TO_REACH = 4
"""The same while a model is opened and its server cannot be reached: the name may be wrong, and somebody waits."""


class Fault(Exception):
    """An answer that cannot be used; it says why, and for which address."""


class Passing(Fault):
    """One that may be another answer a little later."""

    def __init__(self, reason: str, wait: float | None = None):
        super().__init__(reason)
        self.wait = wait
        """Seconds, where the server says so."""


class Unreachable(Passing):
    """Nobody answers, or not to the end."""


class NotThere(Fault):
    """There is nothing of that name."""


class Refused(Fault):
    """The server does not give it out, or gives something else."""


def asked_again(ask: Callable[[], T], *, opening: bool = False, sleep: Callable[[float], object] = time.sleep) -> T:
    """What an answer holds; after each passing fault the next request waits about twice as long.

    `opening`: nothing has come from this server yet.
    """
    wait = _FIRST
    for number in range(1, _TRIES):
        try:
            return ask()
        except Passing as fault:
            if opening and isinstance(fault, Unreachable) and number == _TRIES_TO_REACH:
                raise
            told = wait * random.uniform(0.5, 1.0)
            sleep(told if fault.wait is None else max(told, min(fault.wait, _LONGEST_ASKED)))
            wait = min(2 * wait, _LONGEST)
    return ask()


def as_os_error(fault: Fault, url: str) -> OSError:
    """For those who read files: as if a disk had failed."""
    number = errno.ENOENT if isinstance(fault, NotThere) else errno.EIO
    return OSError(number, str(fault), url)
