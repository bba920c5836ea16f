"""Shorter programs: two operations become one where nothing else needs what lies between, and registers are used again.

The numbers come out the same to the last bit: an operation that stands for two does the same arithmetic. A program is
written anew for every span, with other numbers in it but of the same form, so a form is shortened once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smelt.fused.operation import Code, reads, writes

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["OP", "shorten"]

OP = np.dtype(
    [
        *[(name, "i4") for name in ("code", "dst", "a", "b")],
        *[("p", "f4"), ("q", "f4"), ("count", "i8"), ("where", "u8"), ("low", "u4"), ("between", "u4")],
    ]
)
"""An operation as machine.c reads it."""
Form: TypeAlias = tuple[tuple[int, int, int, int, int], ...]
"""Of each operation its code, the registers dst, a and b, and one more register or -1."""
_ONE, _NONE = "one", "none"
"""Stand for a factor of 1, and for a bound that everything exceeds."""


@dataclass(frozen=True)
class _Op:
    """An operation whose numbers are not known yet, only where they will come from."""

    code: int
    dst: int
    a: int
    b: int
    second: int
    p: Any
    q: Any
    source: int
    """The operation of the long program whose places and counts it has."""

    @property
    def needs(self) -> list[int]:
        return reads(self.code, self.dst, self.a, self.b, self.second)

    @property
    def changes(self) -> list[int]:
        return writes(self.code, self.dst, self.second)


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
        case (Code.LOAD_CUT | Code.DRAWN), Code.SCALE if one.q == _ONE:
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
        if i is None or two.needs.count(middle) > 1:
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
                second=place.get(op.second, -1),
            )
        )
        for register in {r for r in (*op.needs, *op.changes) if last[r] == k}:
            free.append(place.pop(register))
    return out, used


_TAPS = (Code.LOAD, Code.LOAD_LESS, Code.LOAD_CUT, Code.LOAD_SCALED, Code.LOAD_ADD_SCALED, Code.LESS_ADD_SCALED)


@dataclass(frozen=True)
class _Short:
    """A shortened form, and where its numbers come from."""

    ops: NDArray[Any]
    p: NDArray[np.int64]
    q: NDArray[np.int64]
    source: NDArray[np.int64]
    place: Mapping[int, int]
    registers: int


@lru_cache(256)
def _short(form: Form) -> _Short:
    ops = [_Op(*op, ("p", k), ("q", k), k) for k, op in enumerate(form)]
    j = 0
    while j < len(ops):
        shorter = _joined(ops, j)
        if shorter is None:
            j += 1
        else:
            j -= len(ops) - len(shorter)
            ops = shorter
    ops, registers = _packed(ops)
    found = np.zeros(len(ops), OP)
    for name in ("code", "dst", "a", "b"):
        found[name] = [getattr(op, name) for op in ops]
    found["low"] = [max(0, op.second) for op in ops]
    at = {_ONE: 2 * len(form), _NONE: 2 * len(form) + 1}
    at |= {("p", k): k for k in range(len(form))} | {("q", k): len(form) + k for k in range(len(form))}
    indices = (np.array([at[number] for number in numbers]) for numbers in zip(*((op.p, op.q) for op in ops), strict=True))
    p, q = indices
    source = np.array([op.source for op in ops])
    return _Short(found, p, q, source, {op.source: k for k, op in enumerate(ops)}, registers)


def shorten(long: NDArray[Any], seconds: Mapping[int, int]) -> tuple[NDArray[Any], Mapping[int, int], int]:
    """The short program, where in it the operations are that count or gather, and how many registers it needs.

    `seconds` tells of the operations that take one more register which it is.
    """
    registers = zip(*(long[name].tolist() for name in ("code", "dst", "a", "b")), strict=True)
    short = _short(tuple((*op, seconds.get(k, -1)) for k, op in enumerate(registers)))
    numbers = np.concatenate([long["p"], long["q"], np.array([1.0, -1.0], np.float32)])
    ops = short.ops.copy()
    ops["p"], ops["q"] = numbers[short.p], numbers[short.q]
    for name in ("count", "where", "between"):
        ops[name] = long[name][short.source]
    ops["low"] |= long["low"][short.source]
    return ops, short.place, short.registers
