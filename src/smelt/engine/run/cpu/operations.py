"""The operations of the vector machine, by the numbers that machine.c gives them, and shorter lists of them.

Two operations become one where nothing else needs what lies between, and registers are used again (peephole
optimisation). The numbers come out the same to the last bit: an operation that stands for two does the same arithmetic.
A program is written anew for every span, with other numbers in it but of the same form, so a form is shortened once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np

__all__ = ["OP", "Code", "Numbered", "reads", "shorten", "writes"]


class Code(IntEnum):
    """What each operation does with its fields, in float32 unless a line says otherwise.

    dst, a, b, third are numbers of registers; `tap a` is the stored tensor number a of the item. What gathers adds to
    the array at `memory`, what counts adds to `count`. Random: `low` is the counter of the first element and `high` the
    key. `third` is stored in `low`, which no operation needs for both.

    LOAD             dst = tap a                           STORE          out = a
    ADD, SUBTRACT    dst = a + b, a - b                    MULTIPLY       dst = a * b
    DIVIDE           dst = a / b                           DIVIDE_BY      dst = a / p
    SCALE            dst = a * p                           ADD_SCALED     dst = fma(a, p, dst)
    SHIFT            dst = a + p                           SQUARE         dst = a * a
    LARGER           dst = max(a, b)                       AT_LEAST       dst = max(a, p)
    NO_ZERO          dst = 1 where a = 0, else a           CLAMP          dst = a within [-p, p]
    SIGN, SIGN_UP    dst = sign of a; SIGN_UP: 1 for 0     AGREE          dst = max(a * b, 0)
    ABOVE            dst = a where |a| > p, else 0         BAND           dst = a where p < |a| <= q, else 0
    CUT              dst = a where |a| > p, else 0, but of those with |a| = q only the first `count`
    WHERE            dst = a where |b| > p, else 0         KEEP_WHERE     the same, else 0 * a
    AGREE_INTO       x = max(a * b, 0): dst = fma(x, q, dst), third = fma(sign of x, p, third); count 0: begins both
    VARIANCE         dst = the variance of a, b and third
    DRAW             dst = 1 with chance p, else 0; random
    DRAW_RANKED      dst = 1 with chance p + q * (rank of |a| in the row + 1/2), else 0; random; memory: scratch
    RANKS            dst = how many |a| of the row are smaller, and half of those equal to it; memory: scratch
    PACK, UNPACK     memory: one bit for each element, whether a is not 0; dst = 1 where the bit is set, else 0
    ROW_SCALE        dst = a * memory[row], float32

    COARSE           memory: how often each of the upper 16 bits of |a| occurs, uint32
    FINE             memory: the lower 15 bits of those |a| whose upper ones are `low`, uint16, `count` of them
    EQUAL            count: how many |a| have the bits `low`
    BRACKET          memory: int64 counts of |a| above `high`, equal to `high`, equal to `low` and (if p) as good as 0,
                     then those between the two, uint32, `count` of them; `low` and `high` are bits of float32
    DOT, DOTS        memory: a . b in float64; DOTS: the six products of a, b and third with each other
    MASSES           memory: the sum of |a|, and of |a| where b is not 0, in float64
    ROW_DOT          memory[row] = a . b in float64
    ROW_DIVERGENCE   memory[2 * width + row] = the divergence of b + a from b in float64; before it scratch

    Fused by `shorten`, never written by a rule: what lies between the two is not kept.
    LOAD_LESS        dst = tap a - b                       LOAD_SCALED    dst = tap a * p
    LOAD_ADD_SCALED  dst = fma(tap a, p, dst)              LESS_ADD_SCALED dst = fma(tap a - b, p, dst)
    LOAD_CUT         dst = (tap a - b where its magnitude exceeds p, else 0) * q
    CUT_SCALED       dst = (a where |a| > p, else 0) * q   PRODUCT        dst = (a * b) * p
    SIGN_SUM, _UP    dst = sign of a + b                   RATIO          dst = a / max(b, p)
    DISTANCE         dst = (a - b)^2                       DISTANCE_INTO  dst = dst + (a - b)^2
    STORE_SUM        out = a + b                           STORE_PRODUCT  out = a * b + third
    AGREE_PLUS       dst = third + max(a * b, 0)           WHERE_SQUARES  memory: a . a where |b| > p
    DRAWN            dst = (a with chance p, else 0 * a) * q; random
    LESS_DRAWN       the same of tap a - b                 DRAWN_MASSES   memory: sums of |a| and of |a| with chance p
    UNPACKED         dst = (a where the bit is set, else 0 * a) * q
    """

    LOAD, STORE, SUBTRACT, ADD, MULTIPLY, DIVIDE, SCALE, ADD_SCALED, DIVIDE_BY, CUT, DRAW = range(11)
    SIGN, SIGN_UP, AGREE, LARGER, AT_LEAST, NO_ZERO, COARSE, FINE, EQUAL, DOT, MASSES, SQUARE = range(11, 23)
    RANKS, DRAW_RANKED, PACK, UNPACK, SHIFT, BRACKET = range(23, 29)
    LOAD_LESS, LOAD_CUT, LOAD_SCALED, LOAD_ADD_SCALED, LESS_ADD_SCALED, CUT_SCALED, SIGN_SUM = range(29, 36)
    SIGN_SUM_UP, AGREE_INTO, RATIO, PRODUCT, STORE_SUM, DRAWN, DISTANCE, DISTANCE_INTO, BAND, ABOVE = range(36, 46)
    DOTS, CLAMP, ROW_DOT, ROW_SCALE, VARIANCE, WHERE = range(46, 52)
    DRAWN_MASSES, LESS_DRAWN, UNPACKED, AGREE_PLUS, STORE_PRODUCT, WHERE_SQUARES = range(52, 58)
    KEEP_WHERE, ROW_DIVERGENCE = range(58, 60)


_NO_A = {
    Code.LOAD, Code.LOAD_LESS, Code.LOAD_CUT, Code.LOAD_SCALED, Code.LOAD_ADD_SCALED, Code.LESS_ADD_SCALED,
    Code.DRAW, Code.UNPACK, Code.LESS_DRAWN,
}  # fmt: skip
_WITH_B = {
    Code.SUBTRACT, Code.ADD, Code.MULTIPLY, Code.DIVIDE, Code.AGREE, Code.LARGER, Code.DOT, Code.LOAD_LESS,
    Code.LOAD_CUT, Code.LESS_ADD_SCALED, Code.SIGN_SUM, Code.SIGN_SUM_UP, Code.AGREE_INTO, Code.RATIO, Code.PRODUCT,
    Code.STORE_SUM, Code.DISTANCE, Code.DISTANCE_INTO, Code.DOTS, Code.ROW_DOT, Code.MASSES, Code.VARIANCE, Code.WHERE,
    Code.LESS_DRAWN, Code.AGREE_PLUS, Code.STORE_PRODUCT, Code.WHERE_SQUARES, Code.KEEP_WHERE, Code.ROW_DIVERGENCE,
}  # fmt: skip
_ADDS_TO = {Code.ADD_SCALED, Code.LOAD_ADD_SCALED, Code.LESS_ADD_SCALED, Code.DISTANCE_INTO}
_GATHERS = {
    Code.STORE, Code.STORE_SUM, Code.COARSE, Code.FINE, Code.EQUAL, Code.DOT, Code.MASSES, Code.PACK, Code.BRACKET,
    Code.DOTS, Code.ROW_DOT, Code.DRAWN_MASSES, Code.STORE_PRODUCT, Code.WHERE_SQUARES, Code.ROW_DIVERGENCE,
}  # fmt: skip


def reads(code: int, dst: int, a: int, b: int, third: int) -> list[int]:
    """The registers whose numbers an operation needs. `third` is -1 but where it takes one more."""
    found = [] if code in _NO_A else [a]
    if code in _WITH_B:
        found.append(b)
    if code in _ADDS_TO:
        found.append(dst)
    if code == Code.AGREE_INTO:
        found.append(dst)
    if third >= 0:
        found.append(third)
    return found


def writes(code: int, dst: int, third: int) -> list[int]:
    """The registers that it changes."""
    if code in _GATHERS:
        return []
    return [dst, third] if code == Code.AGREE_INTO else [dst]


OP = np.dtype(
    [
        *[(name, "i4") for name in ("code", "dst", "a", "b")],
        *[("p", "f4"), ("q", "f4"), ("count", "i8"), ("memory", "u8"), ("low", "u4"), ("high", "u4")],
    ]
)
"""An operation as machine.c reads it. What its fields hold is told by `Code`."""
Form: TypeAlias = tuple[tuple[int, int, int, int, int], ...]
"""Of each operation its code, the registers dst, a and b, and one more register or -1."""
Numbered: TypeAlias = tuple[int, int, int, int, float, float, int, int, int, int]
"""An operation with its numbers, in the order of OP."""
_ONE, _NONE = -1, -2
"""Stand for a factor of 1, and for a bound that everything exceeds; other numbers are counted from 0."""
_VALUE = {_ONE: 1.0, _NONE: -1.0}


@dataclass(frozen=True)
class _Op:
    """An operation whose numbers are not known yet, only where they will come from."""

    code: int
    dst: int
    a: int
    b: int
    third: int
    p: int
    q: int
    source: int
    """The operation of the long program whose places and counts it has."""
    key: int
    """And the one whose random numbers, or bits to look for."""

    @cached_property
    def needs(self) -> list[int]:
        return reads(self.code, self.dst, self.a, self.b, self.third)

    @cached_property
    def changes(self) -> list[int]:
        return writes(self.code, self.dst, self.third)


def _pair(one: _Op, two: _Op) -> _Op | None:
    """The operation that does both, if there is one; `two` needs the result of `one`."""
    middle = one.dst
    first = two.a == middle and two.code not in (Code.LOAD, Code.DRAW, Code.UNPACK)
    match Code(one.code), Code(two.code):
        case Code.LOAD, Code.SUBTRACT if first:
            return replace(two, code=Code.LOAD_LESS, a=one.a)
        case Code.LOAD, Code.SCALE:
            return replace(two, code=Code.LOAD_SCALED, a=one.a)
        case Code.LOAD, Code.ADD_SCALED if first:
            return replace(two, code=Code.LOAD_ADD_SCALED, a=one.a)
        case Code.LOAD_LESS, Code.ADD_SCALED if first:
            return replace(two, code=Code.LESS_ADD_SCALED, a=one.a, b=one.b)
        case Code.LOAD_LESS, Code.SCALE:
            return replace(two, code=Code.LOAD_CUT, a=one.a, b=one.b, p=_NONE, q=two.p)
        case Code.LOAD_LESS, Code.ABOVE:
            return replace(two, code=Code.LOAD_CUT, a=one.a, b=one.b, q=_ONE)
        case ((Code.LOAD_CUT | Code.DRAWN | Code.LESS_DRAWN | Code.UNPACKED), Code.SCALE) if one.q == _ONE:
            return replace(one, dst=two.dst, q=two.p)
        case Code.ABOVE, Code.SCALE:
            return replace(two, code=Code.CUT_SCALED, a=one.a, p=one.p, q=two.p)
        case Code.ADD, (Code.SIGN | Code.SIGN_UP):
            code = Code.SIGN_SUM if two.code == Code.SIGN else Code.SIGN_SUM_UP
            return replace(two, code=code, a=one.a, b=one.b)
        case Code.AT_LEAST, Code.DIVIDE if not first:
            return replace(two, code=Code.RATIO, b=one.a, p=one.p)
        case Code.MULTIPLY, Code.SCALE:
            return replace(two, code=Code.PRODUCT, a=one.a, b=one.b)
        case Code.ADD, Code.STORE:
            return replace(two, code=Code.STORE_SUM, a=one.a, b=one.b)
        case Code.DRAW, Code.MULTIPLY if first:
            return replace(one, code=Code.DRAWN, dst=two.dst, a=two.b, q=_ONE)
        case Code.LOAD_LESS, Code.DRAWN:
            return replace(two, code=Code.LESS_DRAWN, a=one.a, b=one.b)
        case Code.DRAWN, Code.MASSES if not first and two.a == one.a and one.q == _ONE:
            return replace(two, code=Code.DRAWN_MASSES, b=0, p=one.p, key=one.key)
        case Code.UNPACK, Code.MULTIPLY if first:
            return replace(one, code=Code.UNPACKED, dst=two.dst, a=two.b, q=_ONE)
        case Code.AGREE, Code.ADD:
            return replace(two, code=Code.AGREE_PLUS, a=one.a, b=one.b, third=two.b if first else two.a)
        case Code.MULTIPLY, Code.STORE_SUM:
            return replace(two, code=Code.STORE_PRODUCT, a=one.a, b=one.b, third=two.b if first else two.a)
        case Code.WHERE, Code.DOT if two.a == two.b:
            return replace(two, code=Code.WHERE_SQUARES, a=one.a, b=one.b, p=one.p)
        case Code.SUBTRACT, Code.SQUARE:
            return replace(two, code=Code.DISTANCE, a=one.a, b=one.b)
        case Code.DISTANCE, Code.ADD if not first and two.a == two.dst:
            return replace(two, code=Code.DISTANCE_INTO, a=one.a, b=one.b)
    return None


def _joined(ops: list[_Op], j: int) -> list[_Op] | None:
    """The program with its operation `j` and one before it in one, if that can be."""
    two = ops[j]
    for middle in set(two.needs):
        i = next((k for k in range(j - 1, -1, -1) if middle in ops[k].changes), None)
        if i is None or (two.needs.count(middle) > 1 and two.code != Code.DOT):
            continue
        one, between = ops[i], ops[i + 1 : j]
        wanted = any(middle in op.needs for op in between) or _wanted(middle, two, ops[j + 1 :])
        moved = any(set(one.needs) & set(op.changes) for op in between) or len(one.changes) > 1
        if wanted or moved or (both := _pair(one, two)) is None:
            continue
        return [*ops[:i], *between, both, *ops[j + 1 :]]
    return None


def _wanted(register: int, by: _Op, after: list[_Op]) -> bool:
    """Whether what the register holds before `by` is needed after it."""
    if register in by.changes:
        return False
    for op in after:
        if register in op.needs:
            return True
        if register in op.changes:
            return False
    return False


def _packed(ops: list[_Op]) -> tuple[list[_Op], int]:
    """With as few registers as are needed at once. A result never gets the register of what it is made from."""
    last = {register: k for k, op in enumerate(ops) for register in (*op.needs, *op.changes)}
    place: dict[int, int] = {}
    free: list[int] = []
    used, out = 0, []
    for k, op in enumerate(ops):
        for register in op.changes:
            if register not in place:
                if not free:
                    free, used = [used], used + 1
                place[register] = free.pop()
        out.append(
            replace(
                op,
                dst=place.get(op.dst, 0),
                a=place[op.a] if op.a in op.needs and op.code not in _TAPS else op.a,
                b=place.get(op.b, 0),
                third=place.get(op.third, -1),
            )
        )
        for register in {r for r in (*op.needs, *op.changes) if last[r] == k}:
            free.append(place.pop(register))
    return out, used


_TAPS = (
    Code.LOAD, Code.LOAD_LESS, Code.LOAD_CUT, Code.LOAD_SCALED, Code.LOAD_ADD_SCALED, Code.LESS_ADD_SCALED,
    Code.LESS_DRAWN,
)  # fmt: skip


@dataclass(frozen=True)
class _Short:
    """A shortened form: of each operation code and registers, where p and q come from, whose places and key it has."""

    ops: Sequence[tuple[int, int, int, int, int, int, int, int, int]]
    place: Mapping[int, int]
    registers: int


@lru_cache(256)
def _short(form: Form) -> _Short:
    ops = [_Op(*op, 2 * k, 2 * k + 1, k, k) for k, op in enumerate(form)]
    j = 0
    while j < len(ops):
        shorter = _joined(ops, j)
        if shorter is None:
            j += 1
        else:
            j -= len(ops) - len(shorter)
            ops = shorter
    ops, registers = _packed(ops)
    found = [(op.code, op.dst, op.a, op.b, max(0, op.third), op.p, op.q, op.source, op.key) for op in ops]
    return _Short(found, {op.source: k for k, op in enumerate(ops)}, registers)


def shorten(long: Sequence[Numbered], thirds: Mapping[int, int]) -> tuple[list[Numbered], Mapping[int, int], int]:
    """The short program, where in it the operations are that count or gather, and how many registers it needs.

    `thirds` tells of the operations that take one more register which it is.
    """
    short = _short(tuple((*op[:4], thirds.get(k, -1)) for k, op in enumerate(long)))
    numbers = [number for op in long for number in op[4:6]] + [_VALUE[_NONE], _VALUE[_ONE]]
    ops: list[Numbered] = []
    for code, dst, a, b, third, p, q, source, key in short.ops:
        count, memory = long[source][6:8]
        low, high = long[key][8:]
        ops.append((code, dst, a, b, numbers[p], numbers[q], count, memory, third or low, high))
    return ops, short.place, short.registers
