"""A program of the vector machine: operations on registers, each of which holds a part of one tensor in float32.

    program = Program()
    x, base = program.load(0), program.load(1)
    program.store(program.add(program.scale(program.subtract(x, base), 0.3), base))

`ProgramRun` then feeds it buffers. Numbers that a pass gathers (counts, sums) are in arrays that the program holds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smelt.engine.run.cpu.operations import OP, Code, Numbered, shorten

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.engine.run.cpu.machine import PassScratch

__all__ = ["WIDTH", "Op", "Program"]

WIDTH = 1024
"""Elements of a register, where no operation wants whole rows: with a dozen of them a pass stays in the first cache."""


class Op(NamedTuple):
    """One operation as it was written: its registers, its numbers, and one more register or -1."""

    code: Code
    dst: int
    a: int
    b: int
    p: float
    q: float
    counted: int
    memory: int
    low: int
    high: int
    third: int


class Program:
    """Operations in their order. Methods give the register of the result: a new one, or that of `into`.

    `width` is the number of elements of a register: that of a row, where there are operations on rows. What is held of
    magnitudes is held in the `scratch`, until that is begun again.
    """

    def __init__(self, width: int = WIDTH, scratch: PassScratch | None = None) -> None:
        self.width, self._scratch = width, scratch
        self._third: dict[int, int] = {}
        self._ops: list[Numbered] = []
        self.arrays: dict[int, NDArray[Any]] = {}
        """The arrays of operations that gather, or that read them, by the number of the operation."""
        self._gathered: list[NDArray[Any]] = []
        self._bins: NDArray[np.uint32] | None = None
        self.registers = 0

    def load(self, tap: int) -> int:
        return self._op(Code.LOAD, a=tap)

    def store(self, a: int) -> None:
        self._op(Code.STORE, a=a, into=0)

    def subtract(self, a: int, b: int, into: int | None = None) -> int:
        return self._op(Code.SUBTRACT, a, b, into=into)

    def add(self, a: int, b: int, into: int | None = None) -> int:
        return self._op(Code.ADD, a, b, into=into)

    def multiply(self, a: int, b: int, into: int | None = None) -> int:
        return self._op(Code.MULTIPLY, a, b, into=into)

    def divide(self, a: int, b: int, into: int | None = None) -> int:
        return self._op(Code.DIVIDE, a, b, into=into)

    def scale(self, a: int, factor: float, into: int | None = None) -> int:
        return self._op(Code.SCALE, a, p=factor, into=into)

    def add_scaled(self, total: int, a: int, factor: float) -> int:
        """`total + factor * a` in one rounding, into `total`."""
        return self._op(Code.ADD_SCALED, a, p=factor, into=total)

    def divide_by(self, a: int, divisor: float, into: int | None = None) -> int:
        return self._op(Code.DIVIDE_BY, a, p=divisor, into=into)

    def cut(self, a: int, above: float, equal: float = 0.0, ties: int | None = None) -> int:
        """The entries of larger magnitude than `above`; of those of magnitude `equal` the first `ties`, if given."""
        if ties is None:
            return self._op(Code.ABOVE, a, p=above)
        return self._op(Code.CUT, a, p=above, q=equal, count=ties)

    def band(self, a: int, above: float, upto: float) -> int:
        """The entries of larger magnitude than `above`, less those of larger magnitude than `upto`."""
        return self._op(Code.BAND, a, p=above, q=upto)

    def draw(self, chance: float, counter: int, key: int) -> int:
        """1 with a chance, else 0; the random number's halves are `counter`, to which the place is added, and `key`."""
        return self._op(Code.DRAW, p=chance, low=counter & 0xFFFFFFFF, high=key & 0xFFFFFFFF)

    def ranks(self, a: int) -> int:
        """How many of the row are smaller in magnitude, and half of those equal to it."""
        return self._op(Code.RANKS, a, memory=self._memory_for_bins())

    def draw_ranked(self, a: int, lowest: float, step: float, counter: int, key: int) -> int:
        """1 with a chance of `lowest + step * (rank in the row + 1/2)`, else 0."""
        low, high = counter & 0xFFFFFFFF, key & 0xFFFFFFFF
        return self._op(Code.DRAW_RANKED, a, p=lowest, q=step, memory=self._memory_for_bins(), low=low, high=high)

    def pack(self, a: int, into: NDArray[np.uint8]) -> None:
        """One bit for each element: whether it is not 0. `into` begins as zeros."""
        self._gathers(Code.PACK, into, a)

    def unpack(self, bits: NDArray[np.uint8]) -> int:
        """1 where a bit is set."""
        self.arrays[len(self._ops)] = bits
        return self._op(Code.UNPACK, memory=bits.ctypes.data)

    def sign(self, a: int, into: int | None = None, zero_is_up: bool = False) -> int:
        return self._op(Code.SIGN_UP if zero_is_up else Code.SIGN, a, into=into)

    def agree(self, a: int, sign: int, into: int | None = None) -> int:
        """|a| where it has that sign, else 0."""
        return self._op(Code.AGREE, a, sign, into=into)

    def agreeing(
        self, rows: Sequence[int], sign: int, shares: Sequence[float], weights: Sequence[float] | None = None
    ) -> tuple[int, int]:
        """Two sums over the rows that have that sign: of their magnitudes (times `weights`), and of their `shares`."""
        total, whole = self.registers, self.registers + 1
        self.registers += 2
        for number, (row, share) in enumerate(zip(rows, shares, strict=True)):
            self._third[len(self._ops)] = whole
            weight = weights[number] if weights is not None else 1.0
            self._op(Code.AGREE_INTO, row, sign, p=share, q=weight, count=number, into=total)
        return total, whole

    def larger(self, a: int, b: int, into: int | None = None) -> int:
        return self._op(Code.LARGER, a, b, into=into)

    def at_least(self, a: int, least: float, into: int | None = None) -> int:
        return self._op(Code.AT_LEAST, a, p=least, into=into)

    def no_zero(self, a: int, into: int | None = None) -> int:
        """1 where it is 0."""
        return self._op(Code.NO_ZERO, a, into=into)

    def square(self, a: int, into: int | None = None) -> int:
        return self._op(Code.SQUARE, a, into=into)

    def shift(self, a: int, by: float, into: int | None = None) -> int:
        return self._op(Code.SHIFT, a, p=by, into=into)

    def weighted_sum(self, rows: Sequence[int], weights: Sequence[float]) -> int:
        """sum_i w_i x_i, one fused multiply-add for each after the first."""
        out = self.scale(rows[0], weights[0])
        for row, weight in zip(rows[1:], weights[1:], strict=True):
            self.add_scaled(out, row, weight)
        return out

    def total(self, rows: Sequence[int], into: int | None = None) -> int:
        """Their sum, one after the other."""
        if len(rows) == 1:
            return rows[0]
        out = self.add(rows[0], rows[1], into=into)
        for row in rows[2:]:
            self.add(out, row, into=out)
        return out

    def coarse(self, a: int) -> NDArray[np.uint32]:
        """How often each of the upper 16 bits of a magnitude occurs."""
        return self._gathers(Code.COARSE, np.zeros(1 << 16, np.uint32), a)

    def fine(self, a: int, low: int, most: int) -> tuple[int, NDArray[np.uint16]]:
        """The lower 15 bits of magnitudes whose upper ones are those of `low`: the operation, and space for `most`."""
        space = self._space(-(-most // 2)).view(np.uint16)[:most]
        return len(self._ops), self._gathers(Code.FINE, space, a, low=low)

    def bracket(self, a: int, ends: tuple[int, int], most: int, zeros: bool) -> tuple[int, NDArray[np.uint32]]:
        """The operation, and what it meets: four counts of 64 bits, then the magnitudes inside, of at most `most`."""
        found = self._space(8 + most)
        found[:8] = 0
        self.arrays[len(self._ops)] = found
        self._gathered.append(found[:8])
        self._op(Code.BRACKET, a, memory=found.ctypes.data, low=ends[0], high=ends[1], p=float(zeros), into=0)
        return len(self._ops) - 1, found

    def equal(self, a: int, bits: int) -> int:
        """How many magnitudes have these bits: which operation counts them."""
        self._op(Code.EQUAL, a, low=bits, into=0)
        return len(self._ops) - 1

    def dot(self, a: int, b: int) -> NDArray[np.float64]:
        return self._gathers(Code.DOT, np.zeros(1), a, b)

    def dots(self, a: int, b: int, c: int) -> NDArray[np.float64]:
        """The products of three rows with each other: aa, ab, bb, ac, bc, cc."""
        self._third[len(self._ops)] = c
        return self._gathers(Code.DOTS, np.zeros(6), a, b)

    def variance(self, a: int, b: int, c: int) -> int:
        """Of three rows, place by place."""
        self._third[len(self._ops)] = c
        return self._op(Code.VARIANCE, a, b)

    def where(self, a: int, b: int, above: float) -> int:
        """A where |b| is larger than `above`, else 0."""
        return self._op(Code.WHERE, a, b, p=above)

    def keep_where(self, a: int, b: int, above: float) -> int:
        """A where |b| is larger than `above`, else 0 times it."""
        return self._op(Code.KEEP_WHERE, a, b, p=above)

    def row_divergence(self, change: int, base: int, rows: int) -> NDArray[np.float64]:
        """How far the softmax of every row of the changed base is from that of the base (arcee_fusion.py)."""
        work = 2 * self.width
        return self._gathers(Code.ROW_DIVERGENCE, np.zeros(work + rows), change, base)[work:]

    def row_dot(self, a: int, b: int, rows: int) -> NDArray[np.float64]:
        """The product of every row of a with that of b."""
        return self._gathers(Code.ROW_DOT, np.zeros(rows), a, b)

    def row_scale(self, a: int, factors: NDArray[np.float32]) -> int:
        """Every row times its factor, which need not be known yet."""
        self.arrays[len(self._ops)] = factors
        return self._op(Code.ROW_SCALE, a, memory=factors.ctypes.data)

    def clamp(self, a: int, most: float) -> int:
        """No entry of larger magnitude."""
        return self._op(Code.CLAMP, a, p=most)

    def masses(self, a: int, kept: int) -> NDArray[np.float64]:
        """The sum of magnitudes, and of those where `kept` is not 0."""
        return self._gathers(Code.MASSES, np.zeros(2), a, kept)

    def operations(self) -> list[Op]:
        """As they were written, for machines that read them so."""
        return [Op(Code(op[0]), *op[1:], self._third.get(place, -1)) for place, op in enumerate(self._ops)]

    def short(self) -> tuple[list[Numbered], Mapping[int, int], int]:
        """Its operations, where in them those are that were written in this order, and how many registers they need."""
        return shorten(self._ops, self._third)

    def finish(self) -> tuple[NDArray[Any], Mapping[int, int], int]:
        """The same as machine.c reads them."""
        ops, places, registers = self.short()
        return np.array(ops, OP), places, registers

    def forget(self) -> None:
        """Let arrays be as if no pass had gathered anything."""
        for array in self._gathered:
            array[:] = 0

    def _space(self, size: int) -> NDArray[np.uint32]:
        """For what a pass may find, which is seldom as much; of the thread's own where it has some."""
        return self._scratch.take(size) if self._scratch is not None else np.empty(size, np.uint32)

    def _memory_for_bins(self) -> int:
        if self._bins is None:
            self._bins = np.empty(5 * self.width + 96, np.uint32)
        return int(self._bins.ctypes.data)

    def _gathers(self, code: Code, into: NDArray[Any], a: int, b: int = 0, low: int = 0) -> NDArray[Any]:
        self.arrays[len(self._ops)] = into
        self._gathered.append(into)
        self._op(code, a, b, memory=into.ctypes.data, low=low, into=0)
        return into

    def _op(
        self,
        code: Code,
        a: int = 0,
        b: int = 0,
        *,
        p: float = 0.0,
        q: float = 0.0,
        count: int = 0,
        memory: int = 0,
        low: int = 0,
        high: int = 0,
        into: int | None = None,
    ) -> int:
        if into is None:
            into, self.registers = self.registers, self.registers + 1
        self._ops.append((code, into, a, b, p, q, count, memory, low, high))
        return into
