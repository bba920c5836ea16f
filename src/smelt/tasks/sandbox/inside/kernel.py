"""Calls of the Linux kernel for which Python has no function."""

from __future__ import annotations

import os
import struct
import sys

from .syscalls import SETUP, numbers

__all__ = ["MACHINE", "call", "drop_privileges", "filter_calls", "known_kernel"]

try:
    import ctypes
except ImportError:  # a Python that was built without it
    MACHINE = ""
else:
    MACHINE = os.uname().machine if sys.platform == "linux" and sys.maxsize > 2**32 else ""
    _C = ctypes.CDLL(None, use_errno=True)

_NUMBERS = numbers(SETUP, MACHINE)
_NO_NEW_PRIVS, _SET_PDEATHSIG, _SIGKILL = 38, 1, 9
_SET_SECCOMP, _MODE_FILTER = 22, 2
_CAPABILITY_VERSION = 0x20080522


def known_kernel() -> bool:
    """Whether this is Linux, on a machine whose numbers we know."""
    return bool(_NUMBERS)


def call(name: str, *given: int | bytes | None) -> int:
    """One of the calls that confining needs."""
    words = [ctypes.c_long(one) if isinstance(one, int) else one for one in given]
    return _checked(_C.syscall(ctypes.c_long(_NUMBERS[name]), *words))


def _prctl(what: int, *given: int | bytes) -> int:
    """The call that sets things of a process; it takes five words, whatever they mean."""
    words = [ctypes.c_ulong(one) if isinstance(one, int) else one for one in (*given, 0, 0, 0, 0)[:4]]
    return _checked(_C.prctl(what, *words))


def drop_privileges() -> None:
    """It gets no new rights, lays down those of root, and does not outlive the one who started it."""
    _prctl(_NO_NEW_PRIVS, 1)
    call("capset", struct.pack("=Ii", _CAPABILITY_VERSION, 0), bytes(24))
    _prctl(_SET_PDEATHSIG, _SIGKILL)


def filter_calls(program: bytes) -> None:
    """Have the kernel run a BPF program before every call of this process."""
    content = ctypes.create_string_buffer(program, len(program))
    _prctl(_SET_SECCOMP, _MODE_FILTER, struct.pack("=HxxxxxxQ", len(program) // 8, ctypes.addressof(content)))


def _checked(found: int) -> int:
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found
