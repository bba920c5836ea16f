"""A program of the vector machine written down as a torch function, one line for each operation.

    def merged(taps, out, n, w, left):
        r0 = load(taps[0])
        r1 = load(taps[1])
        r2 = subtract(r0, r1)
        del r0
        ...

Numbers (`n`) and words of keys (`w`) are given when it is called, so that all spans of all tensors with the same stages
share one function. A register is forgotten after its last use: what is held at once is what the stages need, never a
stack of all models. What the words mean stands in `words.py`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.fused.operation import Code

if TYPE_CHECKING:
    from smelt.fused.program import Op, Program

__all__ = ["GATHERING", "Written", "written"]

_LINES: Mapping[Code, str] = {
    Code.LOAD: "r{dst} = load(taps[{a}])",
    Code.STORE: "store(out, r{a}, taps)",
    Code.SUBTRACT: "r{dst} = subtract(r{a}, r{b})",
    Code.ADD: "r{dst} = add(r{a}, r{b})",
    Code.MULTIPLY: "r{dst} = multiply(r{a}, r{b})",
    Code.DIVIDE: "r{dst} = divide(r{a}, r{b})",
    Code.SCALE: "r{dst} = multiply(r{a}, {p})",
    Code.ADD_SCALED: "r{dst} = add_scaled(r{dst}, r{a}, {p})",
    Code.OVER: "r{dst} = over(r{a}, {p})",
    Code.ABOVE: "r{dst} = cut(r{a}, {p})",
    Code.CUT: "r{dst} = cut_first(r{a}, {p}, {q}, {left})",
    Code.BAND: "r{dst} = subtract(cut(r{a}, {p}), cut(r{a}, {q}))",
    Code.WHERE: "r{dst} = where(r{a}, r{b}, {p})",
    Code.CLAMP: "r{dst} = clamp(r{a}, {p})",
    Code.DRAW: "r{dst} = draw(taps[0], {limit}, {low}, {between})",
    Code.SIGN: "r{dst} = sign(r{a})",
    Code.SIGN_UP: "r{dst} = sign_up(r{a})",
    Code.AGREE: "r{dst} = agree(r{a}, r{b})",
    Code.AGREE_INTO: "x = agree(r{a}, r{b}); r{dst} = add_scaled(r{dst}, x, {q}); "
    "r{second} = add_scaled(r{second}, sign(x), {p})",
    Code.LARGER: "r{dst} = larger(r{a}, r{b})",
    Code.AT_LEAST: "r{dst} = at_least(r{a}, {p})",
    Code.NO_ZERO: "r{dst} = no_zero(r{a})",
    Code.SQUARE: "r{dst} = multiply(r{a}, r{a})",
    Code.SHIFT: "r{dst} = add(r{a}, {p})",
    Code.VARIANCE: "r{dst} = variance([r{a}, r{b}, r{second}], {three})",
    Code.DOT: "found.append((r{a}, r{b}))",
    Code.DOTS: "found.append((r{a}, r{b}, r{second}))",
    Code.MASSES: "found.append((r{a}, r{b}))",
    **dict.fromkeys((Code.COARSE, Code.FINE, Code.EQUAL), "found.append((r{a},))"),
}
_FIRST_AGREES = "x = agree(r{a}, r{b}); r{dst} = multiply(x, {q}); r{second} = multiply(sign(x), {p})"
GATHERING = frozenset({Code.COARSE, Code.FINE, Code.EQUAL, Code.MASSES, Code.DOT, Code.DOTS})
"""Operations that find something about registers, and change none."""


@dataclass(frozen=True)
class Written:
    """A program as the source of a function, and what that is called with."""

    source: str
    numbers: tuple[float, ...]
    words: tuple[tuple[int, bool], ...]
    """Each word, and whether the number of the first element is added to it."""
    cuts: tuple[int, ...]
    """The operations that let a number of ties pass and no more."""
    gathers: tuple[int, ...]
    """The operations whose registers it gives back."""


def written(program: Program) -> Written:
    """Write a program down."""
    numbers: list[float] = []
    words: list[tuple[int, bool]] = []
    cuts: list[int] = []
    lines = ["found = []"]
    ops = program.operations()
    gone = _gone_after(ops)
    for place, op in enumerate(ops):
        line = _line(op)
        parts: dict[str, Any] = {**op._asdict(), "left": f"left[{len(cuts)}]"}
        for name, value in (("p", op.p), ("q", op.q), ("three", 3.0)):
            if f"{{{name}}}" in line:
                parts[name] = f"n[{len(numbers)}]"
                numbers.append(float(np.float32(value)))
        if op.code is Code.DRAW:
            for name, word, moves in (
                ("limit", _limit(op.p), False),
                ("low", op.low, True),
                ("between", op.between, False),
            ):
                parts[name] = f"w[{len(words)}]"
                words.append((word, moves))
        if op.code is Code.CUT:
            cuts.append(place)
        lines.append(line.format(**parts))
        if gone[place]:
            lines.append("del " + ", ".join(f"r{register}" for register in gone[place]))
    body = "\n    ".join([*lines, "return found, watched(taps, out)"])
    gathers = tuple(place for place, op in enumerate(ops) if op.code in GATHERING)
    source = f"def merged(taps, out, n, w, left):\n    {body}\n"
    return Written(source, tuple(numbers), tuple(words), tuple(cuts), gathers)


def _line(op: Op) -> str:
    return _FIRST_AGREES if op.code is Code.AGREE_INTO and op.counted == 0 else _LINES[op.code]


def _limit(chance: float) -> int:
    """The largest int32 hash that is kept. Its upper 24 bits, over 2^24 and plus 1/2, must lie below the chance."""
    kept = math.ceil(float(np.float32(chance)) * 2**24)
    return min(max(kept, 0), 2**24) * 256 - 2**31 - 1


def _gone_after(ops: Sequence[Op]) -> list[list[int]]:
    """For each operation the registers that nobody reads after it."""
    gone: list[list[int]] = [[] for _ in ops]
    needed: set[int] = set()
    for place in range(len(ops) - 1, -1, -1):
        line = _line(ops[place])
        there = {name: f"r{{{name}}}" for name in ("dst", "a", "b", "second") if f"r{{{name}}}" in line}
        set_ = {getattr(ops[place], name) for name, text in there.items() if f"{text} =" in line}
        read = {getattr(ops[place], name) for name, text in there.items() if line.count(text) > line.count(f"{text} =")}
        gone[place] = sorted((set_ | read) - needed)
        needed = (needed - set_) | read
    return gone
