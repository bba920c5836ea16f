"""The compiled vector machine (machine.c), if it is there, how programs are run on it, and a thread's memory for that.

A program runs over one tensor, block by block (`ProgramRun`), or over many small ones in one call (`BatchRun`). A pass
needs space for all that might lie between two magnitudes, and fills very little of it (`PassScratch`). It may see a
sample of a tensor instead of all of it (`SamplePieces`).
"""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smelt.files.hashing.blake3 import compiled_blake3
from smelt.formats import dtype as dtypes
from smelt.system.process import native_library

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from smelt.engine.run.cpu.program import Program
    from smelt.files.positioned import FilePlace
    from smelt.formats.source import Source

__all__ = [
    "FORMATS",
    "READS_FILES",
    "BatchRun",
    "CompiledProgram",
    "PassScratch",
    "ProgramRun",
    "SamplePieces",
    "library",
]


READS_FILES = os.name != "nt"
"""Whether the machine reads files itself. On Windows it does not know Python's descriptors, and gets what was read."""

_MISSING = (
    "smelt: the compiled pass is not there, so merges run in torch: the same results, more slowly. "
    "With a C compiler, `pip install --force-reinstall --no-deps smelt` builds it; SMELT_FUSED=0 says nothing"
)


@cache
def library() -> ctypes.CDLL | None:
    """The library with its functions `smelt_run` and those around it, or None."""
    found = native_library(Path(__file__).parent, "_machine")
    try:
        if found is not None:
            _declare(found)
    except AttributeError:  # made by another version of Smelt
        found = None
    if found is None and os.environ.get("SMELT_FUSED") != "0":
        logging.getLogger(__name__).warning(_MISSING)
    return found


def _declare(found: ctypes.CDLL) -> None:
    """What its functions take and give."""
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    passed: list[Any] = [pointer, number, pointer, pointer, number, pointer, number, number, number]
    found.smelt_run.argtypes, found.smelt_run.restype = passed, number
    if not READS_FILES:
        return
    run_files, run_jobs, read_pieces = found.smelt_run_files, found.smelt_run_jobs, found.smelt_read_pieces
    run_files.argtypes = [pointer, number, pointer, number, *passed[3:], number, pointer, pointer]
    run_jobs.argtypes = [pointer, number, pointer, pointer, pointer]
    read_pieces.argtypes = [*[number] * 6, pointer]
    run_files.restype = run_jobs.restype = read_pieces.restype = number


FORMATS = {"BF16": 0, "F16": 1, "F32": 2}
"""The stored formats that the machine reads and writes, by their names in safetensors."""
SPARE = 16
"""How many numbers registers lie further apart than they are wide (machine.c)."""
TAP = np.dtype([("data", "u8"), ("format", "i8"), ("file", "i8"), ("position", "i8"), ("tree", "u8")])
"""Where the numbers of a model are, as machine.c reads it."""
_OUTPUT = np.dtype([("file", "i8"), ("position", "i8"), ("tree", "u8"), ("busy", "u8"), ("error", "i8")])
_JOB = np.dtype([(name, "i8") for name in ("ops", "n_ops", "taps", "n_taps", "out", "out_format", "width", "count")])


@cache
def _hasher() -> ctypes.Array[Any] | None:
    """The functions by which machine.c hashes what it reads and writes; None where they are not compiled."""
    found = compiled_blake3()
    if found is None:
        return None
    functions = (getattr(found, f"smelt_blake3_{name}") for name in ("open", "feed", "close"))
    return (ctypes.c_void_p * 3)(*(ctypes.cast(one, ctypes.c_void_p) for one in functions))


class ProgramRun:
    """A finished program and how far its pass has come. Belongs to one thread."""

    _local = threading.local()

    def __init__(
        self, program: Program, formats: Sequence[str], out: str | None = None, ops: NDArray[Any] | None = None
    ):
        """`ops` are the program's own, as `finish` gives them, with other numbers in them."""
        found = library()
        assert found is not None, "only called where there is a library"
        self._library, self._program = found, program
        own, self._places, self._registers = program.finish()
        self._ops = own if ops is None else ops
        self._counts = self._ops["count"].copy()
        self._taps = np.array([(0, FORMATS[one], -1, 0, 0) for one in formats], TAP)
        self._out = FORMATS[out] if out else 0
        self._done = 0

    def rewind(self) -> None:
        """Be ready for another tensor."""
        self._ops["count"] = self._counts
        self._program.forget()
        self._done = 0

    def count(self, op: int) -> int:
        """What an operation that counts has found."""
        return int(self._ops["count"][self._places[op]])

    def feed(self, taps: Sequence[NDArray[np.uint8]], count: int, out: NDArray[np.uint8] | None = None) -> int:
        """The next `count` elements; 0, or 1 where an input is not finite, 2 where a result is not."""
        self._taps["data"] = [tap.ctypes.data for tap in taps]
        fault = self._library.smelt_run(*self._list(), self._taps.ctypes.data, *self._rest(out, count))
        self._done += count
        return int(fault)

    def feed_files(
        self,
        files: Sequence[FilePlace],
        buffers: Sequence[NDArray[np.uint8]],
        piece: int,
        count: int,
        out: NDArray[np.uint8] | None = None,
        to: FilePlace | None = None,
    ) -> int:
        """The next `count` elements, read from files by `piece`; 3 where that fails.

        With `to`, results are written there; an OSError says that it failed.
        """
        self._taps["data"] = [buffer.ctypes.data for buffer in buffers]
        self._taps["file"], self._taps["position"], self._taps["tree"], _ = zip(*files, strict=True)
        output = np.array([(*to, 0)], _OUTPUT) if to is not None else None
        fault = self._library.smelt_run_files(
            *self._list(),
            self._taps.ctypes.data,
            len(self._taps),
            *self._rest(out, count),
            piece,
            _hasher(),
            output.ctypes.data if output is not None else None,
        )
        self._done += count
        if output is not None and output["error"][0]:
            raise OSError(int(output["error"][0]), os.strerror(int(output["error"][0])))
        return int(fault)

    def _list(self) -> tuple[int, int]:
        return self._ops.ctypes.data, len(self._ops)

    def _rest(self, out: NDArray[np.uint8] | None, count: int) -> tuple[int | None, ...]:
        registers = self.register_memory(max(1, self._registers) * (self._program.width + SPARE))
        into = out.ctypes.data if out is not None else None
        return into, self._out, registers.ctypes.data, self._program.width, self._done, count

    @classmethod
    def register_memory(cls, size: int) -> NDArray[np.float32]:
        """For registers. They begin where a line of the cache does."""
        registers: NDArray[np.float32] | None = getattr(cls._local, "registers", None)
        if registers is None or len(registers) < size:
            more = np.empty(size + 16, np.float32)
            begin = -more.ctypes.data % 64 // 4
            registers = cls._local.registers = more[begin : begin + size]
        return registers


class CompiledProgram(NamedTuple):
    """A finished program. One without places and counts in it can be run again and again, by several threads."""

    program: Program
    """Holds the arrays of its operations."""
    ops: NDArray[Any]
    registers: int

    @classmethod
    def of(cls, program: Program) -> CompiledProgram:
        ops, _, registers = program.finish()
        return cls(program, ops, registers)


class BatchRun:
    """Runs that wait to be done together. Belongs to one thread."""

    def __init__(self, buffers: Sequence[NDArray[np.uint8]]):
        """`buffers` are what inputs are read into, one for each tap."""
        self._held, self._buffers = buffers, [buffer.ctypes.data for buffer in buffers]
        self._programs: list[CompiledProgram] = []
        self._jobs: list[tuple[int, ...]] = []
        self._taps: list[tuple[int, ...]] = []
        self._registers = 0

    def add(
        self,
        what: CompiledProgram,
        formats: Sequence[str],
        files: Sequence[FilePlace],
        out: int,
        out_format: str,
        count: int,
    ) -> None:
        """Run a program over `count` elements that lie in files; `out` is an address."""
        width, taps = what.program.width, len(self._taps) * TAP.itemsize
        for buffer, form, place in zip(self._buffers, formats, files, strict=False):
            self._taps.append((buffer, FORMATS[form], *place[:3]))
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
        registers = ProgramRun.register_memory(max(1, self._registers))
        at = (jobs.ctypes.data, len(jobs), registers.ctypes.data, done.ctypes.data)
        fault = found.smelt_run_jobs(*at, _hasher())
        return int(done[0]) if fault else None


class PassScratch:
    """Arrays that are handed out in turn, and from the first on again after `begin`. Belongs to one thread."""

    def __init__(self, least: int):
        """`least`: of how many numbers each is, or more where more are asked for."""
        self._least, self._next = least, 0
        self._buffers: list[NDArray[np.uint32]] = []

    def begin(self) -> None:
        """What was handed out is needed no more."""
        self._next = 0

    def take(self, size: int) -> NDArray[np.uint32]:
        number, self._next = self._next, self._next + 1
        if number == len(self._buffers):
            self._buffers.append(np.empty(max(size, self._least), np.uint32))
        elif len(self._buffers[number]) < size:
            self._buffers[number] = np.empty(size, np.uint32)
        return self._buffers[number][:size]


_TURN = (5**0.5 - 1) / 2
"""Multiples of the golden ratio lie evenly between whole numbers."""


@dataclass(frozen=True)
class SamplePieces:
    """`many` pieces of `length` elements, and a `last` shorter one where the block does not come out even."""

    start: int
    stride: int
    length: int
    many: int
    last: int

    @classmethod
    def of(cls, start: int, stop: int, share: float, longest: int, order: int = 0) -> SamplePieces:
        """Those of a block, which make a share of it.

        The last piece is rounded up or down by the order of the tensor, so that of many small tensors together the
        share is shown, and not one element of each.
        """
        stride = int(longest / share)
        many, rest = divmod(stop - start, stride)
        return cls(start, stride, max(1, round(stride * share)), many, int(rest * share + (order + 0.5) * _TURN % 1))

    @property
    def count(self) -> int:
        """Elements of all."""
        return self.many * self.length + self.last

    def read(self, source: Source, key: str, out: NDArray[np.uint8]) -> None:
        """Fill `out` with them, as they are stored."""
        size, place, machine = dtypes.item_size(source.tensors[key].dtype), source.stored_at(key), library()
        if place is not None and machine is not None and READS_FILES:
            file, begin = place
            steps = (begin + self.start * size, self.stride * size, self.length * size, self.many, self.last * size)
            if machine.smelt_read_pieces(file, *steps, out.ctypes.data) == 0:
                return
        done = 0
        for number in range(self.many + (self.last > 0)):
            length = self.length if number < self.many else self.last
            source.read_bytes(key, self.start + number * self.stride, out.data[done : done + length * size])
            done += length * size
