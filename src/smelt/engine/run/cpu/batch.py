"""Many small runs of the vector machine in one call: whole tensors, from files to one buffer, each by its program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smelt.engine.run.cpu.library import library
from smelt.engine.run.cpu.program import FORMATS, SPARE, TAP, Program, Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Jobs", "Prepared"]

_JOB = np.dtype([(name, "i8") for name in ("ops", "n_ops", "taps", "n_taps", "out", "out_format", "width", "count")])


class Prepared(NamedTuple):
    """A finished program. One without places and counts in it can be run again and again, by several threads."""

    program: Program
    """Holds the arrays of its operations."""
    ops: NDArray[Any]
    registers: int

    @classmethod
    def of(cls, program: Program) -> Prepared:
        ops, _, registers = program.finish()
        return cls(program, ops, registers)


class Jobs:
    """Runs that wait to be done together. Belongs to one thread."""

    def __init__(self, rooms: Sequence[NDArray[np.uint8]]):
        """`rooms` are what inputs are read into, one for each tap."""
        self._held, self._rooms = rooms, [room.ctypes.data for room in rooms]
        self._programs: list[Prepared] = []
        self._jobs: list[tuple[int, ...]] = []
        self._taps: list[tuple[int, int, int, int]] = []
        self._registers = 0

    def add(
        self,
        what: Prepared,
        formats: Sequence[str],
        files: Sequence[tuple[int, int]],
        out: int,
        out_format: str,
        count: int,
    ) -> None:
        """Run a program over `count` elements that lie in files (descriptor, position); `out` is an address."""
        width, taps = what.program.width, len(self._taps) * TAP.itemsize
        for room, form, (file, position) in zip(self._rooms, formats, files, strict=False):
            self._taps.append((room, FORMATS[form], file, position))
        job = (what.ops.ctypes.data, len(what.ops), taps, len(files), out, FORMATS[out_format], width, count)
        self._programs.append(what)
        self._jobs.append(job)
        self._registers = max(self._registers, what.registers * (width + SPARE))

    def run(self) -> int | None:
        """Do all; the number of the first that met something which is not finite or cannot be read."""
        if not self._jobs:
            return None
        found = library()
        assert found is not None, "only called where there is a library"
        taps, jobs, done = np.array(self._taps, TAP), np.array(self._jobs, _JOB), np.zeros(1, np.int64)
        jobs["taps"] += taps.ctypes.data
        room = Run.room(max(1, self._registers))
        fault = found.smelt_run_jobs(jobs.ctypes.data, len(jobs), room.ctypes.data, done.ctypes.data)
        return int(done[0]) if fault else None
