"""Every write to a weights file, whoever does it: Python by `os.pwrite`, or the vector machine in C."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from smelt.engine.run.cpu.machine import ProgramRun

__all__ = ["Write", "full_after", "on_every_write"]


@dataclass(frozen=True)
class Write:
    """A write that is about to happen."""

    position: int
    """The byte of the file from which on it goes; a header goes to 0."""
    by_machine: bool
    half: Callable[[], Any]
    """Does the first half of it."""


def on_every_write(patch: pytest.MonkeyPatch, hook: Callable[[Write], object]) -> None:
    """Call `hook` before every write. Where it raises, nothing is written but what it has written itself."""
    write, feed = os.pwrite, ProgramRun.feed_files

    def by_python(descriptor: int, data: Any, position: int) -> int:
        hook(Write(position, False, lambda: write(descriptor, bytes(data)[: len(data) // 2], position)))
        return write(descriptor, data, position)

    def by_machine(
        self: ProgramRun, files: Any, buffers: Any, piece: int, count: int, out: Any = None, to: Any = None
    ) -> int:
        if to is not None:
            half = count // 2
            hook(Write(to.position, True, lambda: feed(self, files, buffers, piece, half, out, to)))
        return feed(self, files, buffers, piece, count, out, to)

    patch.setattr(os, "pwrite", by_python)
    patch.setattr(ProgramRun, "feed_files", by_machine)


def full_after(count: int) -> Callable[[Write], None]:
    """A hook: the disk takes so many writes, and is full then."""
    seen: list[Write] = []

    def full(write: Write) -> None:
        seen.append(write)
        if len(seen) > count:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return full
