"""A filter of system calls, which the kernel runs before every call of this process and which cannot be taken off.

It is a list: what a running Python needs is allowed, some of it by what it is given, and all else is "not permitted".
The program of the filter is classic BPF over `struct seccomp_data`: number, machine, arguments.
"""

from __future__ import annotations

import errno
import os
import struct

from .kernel import CHANGES, CHECKED, HARMLESS, MACHINE, filter_calls, numbers

__all__ = ["install", "instructions"]

_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
"""From here on x86_64 has the numbers of another world (32-bit pointers), of which none is allowed."""

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000

_CLONE_THREAD = 0x10000
_O_TMPFILE = 0o20000000
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""Is it a terminal, how wide, how much is there to read; blocking or not; closed by exec or not."""
_FCNTLS = (0, 1, 2, 3, 4, 1030)
"""Copies of a descriptor and its flags. Not: who gets signals about it."""

_Instruction = tuple[int, int, int, int]
"""Code, jump if true, jump if false, constant."""
_Check = tuple[int, int, tuple[int, ...]]
"""Which argument (its lower 32 bits), a mask, and the values of the two that are allowed."""


def install(changes: bool) -> None:
    """Filter every call from now on; `changes`: files may be written, because something else says which."""
    filter_calls(b"".join(struct.pack("=HBBI", *one) for one in instructions(MACHINE, os.getpid(), changes)))


def instructions(machine: str, process: int, changes: bool) -> list[_Instruction]:
    """The filter for a machine."""
    found = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, _ARCHITECTURE[machine]), (_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if machine == "x86_64":
        found += [(_AT_LEAST, 0, 1, _X32), _refused(errno.EPERM)]
    for number in numbers(f"{HARMLESS} {CHANGES}" if changes else HARMLESS, machine).values():
        found += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW)]
    checks = _checks(process, changes)
    for name, number in numbers(CHECKED, machine).items():
        steps = _looked_at(checks[name]) if name in checks else [_refused(errno.ENOSYS)]
        found += [(_EQUAL, 0, len(steps), number), *steps]
    return [*found, _refused(errno.EPERM)]


def _checks(process: int, changes: bool) -> dict[str, _Check]:
    """`clone3` is missing: it hides its arguments, and says "not known", so that the C library takes `clone`."""
    fine: tuple[int, ...] = (0,)
    flags = 0o3 | os.O_CREAT | os.O_TRUNC | _O_TMPFILE
    if changes:  # only what reads and cuts at once is refused: old versions of Landlock take it for reading
        flags, fine = 0o3 | os.O_TRUNC, (0, 1, 2, 1 | os.O_TRUNC, 2 | os.O_TRUNC)
    return {
        "open": (1, flags, fine),
        "openat": (2, flags, fine),
        "ioctl": (1, 0xFFFFFFFF, _IOCTLS),
        "fcntl": (1, 0xFFFFFFFF, _FCNTLS),
        "clone": (0, _CLONE_THREAD, (_CLONE_THREAD,)),
        "tgkill": (0, 0xFFFFFFFF, (process,)),
        "prlimit64": (0, 0xFFFFFFFF, (0, process)),
    }


def _looked_at(check: _Check) -> list[_Instruction]:
    argument, mask, values = check
    steps = [(_LOAD, 0, 0, 16 + 8 * argument), (_AND, 0, 0, mask)]
    for value in values:
        steps += [(_EQUAL, 0, 1, value), (_RETURN, 0, 0, _ALLOW)]
    return [*steps, _refused(errno.EPERM)]


def _refused(code: int) -> _Instruction:
    return (_RETURN, 0, 0, _ERRNO | code)
