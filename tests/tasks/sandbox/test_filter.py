"""The filter of system calls, run here as the kernel would, for both machines that it knows."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

from smelt.tasks.sandbox.inside import kernel, seccomp

ALLOW, KILL = 0x7FFF0000, 0x80000000
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
REFUSED = {
    "execve": (59, 221),
    "socket": (41, 198),
    "kill": (62, 129),
    "ptrace": (101, 117),
    "io_uring_setup": (425, 425),
}
READ, OPENAT, CLONE, CLONE3, TGKILL = (0, 63), (257, 56), (56, 220), (435, 435), (234, 131)
ME = 4321


def answer(machine: str, number: int, *given: int, changes: bool = True, architecture: int | None = None) -> int:
    """What the filter says to a call: ALLOW, KILL, or the number of an error."""
    words = {0: number, 4: architecture or MACHINES[machine]}
    words |= {16 + 8 * at: value & 0xFFFFFFFF for at, value in enumerate((*given, 0, 0, 0, 0, 0, 0)[:6])}
    steps, at, held = seccomp.instructions(machine, ME, changes), 0, 0
    while True:
        code, yes, no, constant = steps[at]
        at += 1
        if code == 0x06:
            return constant if constant in (ALLOW, KILL) else constant & 0xFFFF
        if code == 0x20:
            held = words[constant]
        elif code == 0x54:
            held &= constant
        else:
            at += yes if (held == constant if code == 0x15 else held >= constant) else no


@pytest.mark.parametrize(("column", "machine"), list(enumerate(MACHINES)))
def test_what_python_needs_is_allowed_and_all_else_is_not(column: int, machine: str) -> None:
    assert answer(machine, READ[column]) == ALLOW
    assert {answer(machine, pair[column]) for pair in REFUSED.values()} == {errno.EPERM}
    allowed = {number for number in range(1024) if answer(machine, number) == ALLOW}
    known = kernel.numbers(f"{kernel.HARMLESS} {kernel.CHANGES} {kernel.CHECKED}", machine)
    assert allowed <= set(known.values())
    assert answer(machine, READ[column], architecture=0x40000003) == KILL  # 32-bit calls have other numbers
    assert answer("x86_64", 0x40000000) == errno.EPERM


@pytest.mark.parametrize(("column", "machine"), list(enumerate(MACHINES)))
def test_calls_are_looked_at_by_what_they_are_given(column: int, machine: str) -> None:
    thread, fork = 0x3D0F00, 0x1200011
    assert (answer(machine, CLONE[column], thread), answer(machine, CLONE[column], fork)) == (ALLOW, errno.EPERM)
    assert answer(machine, CLONE3[column]) == errno.ENOSYS
    assert (answer(machine, TGKILL[column], ME), answer(machine, TGKILL[column], 1)) == (ALLOW, errno.EPERM)
    write = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for changes, flags, expected in (
        (True, os.O_RDONLY, ALLOW),
        (True, write, ALLOW),
        (True, os.O_RDONLY | os.O_TRUNC, errno.EPERM),
        (False, os.O_RDONLY, ALLOW),
        (False, write, errno.EPERM),
        (False, os.O_RDWR, errno.EPERM),
        (False, os.O_RDONLY | os.O_CREAT, errno.EPERM),
    ):
        assert answer(machine, OPENAT[column], 0, 0, flags, changes=changes) == expected


@pytest.mark.parametrize(
    ("machine", "header"),
    [("x86_64", "/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), ("aarch64", "/usr/include/asm-generic/unistd.h")],
)
def test_numbers_are_those_of_the_kernel_s_headers(machine: str, header: str) -> None:
    if not Path(header).is_file():
        pytest.skip("the kernel's headers are not installed")
    found = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", Path(header).read_text())
    known = {name: int(number) for name, number in found}
    known |= {"newfstatat": known.get("fstatat", known.get("newfstatat", -1))}
    every = f"{kernel.HARMLESS} {kernel.CHANGES} {kernel.CHECKED} {kernel.SETUP}"
    ours = kernel.numbers(every, machine)
    assert ours == {name: known[name] for name in ours}
