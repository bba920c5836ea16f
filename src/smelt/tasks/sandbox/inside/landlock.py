"""Landlock: the kernel lets a process open only what lies below folders that were named, root's processes too.

https://docs.kernel.org/userspace-api/landlock.html, kernel 5.13 and later. What a kernel knows beyond files (ports,
sockets without a file, signals) is refused altogether.
"""

from __future__ import annotations

import os
import stat
import struct

from .kernel import call

__all__ = ["restrict"]

_FILES = {1: 13, 2: 14, 3: 15, 5: 16}
"""Version -> how many kinds of access to files it knows; the bits are numbered in this order."""
_READ_FILE, _READ_FOLDER, _WRITE_FILE = 1 << 2, 1 << 3, 1 << 1
_ASK_VERSION = 1
_BELOW_A_PATH = 1


def restrict(read: list[str], write: list[str], devices: list[str]) -> None:
    """From now on open only files below `read`, do anything below `write`, and read and write `devices`."""
    version = call("landlock_create_ruleset", None, 0, _ASK_VERSION)
    every = (1 << max(bits for since, bits in _FILES.items() if since <= version)) - 1
    ports, scopes = (0b11 if version >= 4 else 0), (0b11 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    rules = call("landlock_create_ruleset", struct.pack("=QQQ", every, ports, scopes)[:size], size, 0)
    try:
        for paths, access in ((read, _READ_FILE | _READ_FOLDER), (write, every), (devices, _READ_FILE | _WRITE_FILE)):
            for path in paths:
                _allow(rules, path, access)
        call("landlock_restrict_self", rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, access: int) -> None:
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # it is not on this system
        return
    try:
        if not stat.S_ISDIR(os.fstat(place).st_mode):
            access &= _READ_FILE | _WRITE_FILE
        call("landlock_add_rule", rules, _BELOW_A_PATH, struct.pack("=Qi", access, place), 0)
    finally:
        os.close(place)
