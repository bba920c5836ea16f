"""A program of the vector machine as the lines of a function, one for each operation:

    def merged(tap0, tap1, out, n0):
        found = []
        r0 = load(tap0)
        r1 = load(tap1)
        r2 = subtract(r0, r1)
        ...
        return found, watched(out, tap0, tap1)

Numbers (`n0`, ...) and words of keys (`w0`, ...) are given when it is called, so that all spans of all tensors with the
same stages share one function. The same lines are run by torch, operation by operation (what they mean stands in
torch_ops.py), and by one Triton kernel (kernel.py, triton_ops.py).

In torch a register is forgotten after its last use: what is held at once is what the stages need, never a stack of all
models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from torch import Tensor

from smelt.engine.run.cpu.operations import Code, reads
from smelt.engine.run.gpu import torch_ops

if TYPE_CHECKING:
    from smelt.engine.run.cpu.program import Op, Program

__all__ = [
    "GATHERING",
    "CodeLine",
    "GeneratedProgram",
    "ProgramForm",
    "TorchFunction",
    "generate",
    "torch_function",
    "torch_source",
]

_LINES: Mapping[Code, str] = {
    Code.LOAD: "r{dst} = load(tap{a})",
    Code.STORE: "store(out, r{a})",
    Code.SUBTRACT: "r{dst} = subtract(r{a}, r{b})",
    Code.ADD: "r{dst} = add(r{a}, r{b})",
    Code.MULTIPLY: "r{dst} = multiply(r{a}, r{b})",
    Code.DIVIDE: "r{dst} = divide(r{a}, r{b})",
    Code.SCALE: "r{dst} = multiply(r{a}, {p})",
    Code.ADD_SCALED: "r{dst} = add_scaled(r{dst}, r{a}, {p})",
    Code.DIVIDE_BY: "r{dst} = over(r{a}, {p}, {inverse})",
    Code.ABOVE: "r{dst} = cut(r{a}, {p})",
    Code.CUT: "r{dst} = cut_first(r{a}, {p}, {q}, {left})",
    Code.BAND: "r{dst} = subtract(cut(r{a}, {p}), cut(r{a}, {q}))",
    Code.WHERE: "r{dst} = where(r{a}, r{b}, {p})",
    Code.CLAMP: "r{dst} = clamp(r{a}, {p})",
    Code.DRAW: "r{dst} = draw(place, {limit}, {low}, {between})",
    Code.SIGN: "r{dst} = sign(r{a})",
    Code.SIGN_UP: "r{dst} = sign_up(r{a})",
    Code.AGREE: "r{dst} = agree(r{a}, r{b})",
    Code.AGREE_INTO: "x = agree(r{a}, r{b}); r{dst} = add_scaled(r{dst}, x, {q}); "
    "r{second} = add_scaled(r{second}, positive(x), {p})",
    Code.LARGER: "r{dst} = larger(r{a}, r{b})",
    Code.AT_LEAST: "r{dst} = at_least(r{a}, {p})",
    Code.NO_ZERO: "r{dst} = no_zero(r{a})",
    Code.SQUARE: "r{dst} = multiply(r{a}, r{a})",
    Code.SHIFT: "r{dst} = add(r{a}, {p})",
    Code.VARIANCE: "r{dst} = variance(r{a}, r{b}, r{second}, {three}, {third})",
}
_FIRST_AGREES = "x = agree(r{a}, r{b}); r{dst} = multiply(x, {q}); r{second} = multiply(positive(x), {p})"
GATHERING = frozenset({Code.COARSE, Code.FINE, Code.EQUAL, Code.BRACKET, Code.MASSES, Code.DOT, Code.DOTS})
"""Operations that find something about registers, and change none: each machine has its own way with them."""
_Bare: TypeAlias = tuple[Code, int, int, int, int, bool]
"""An operation without its numbers: its registers, and whether it is the first of several."""


@dataclass(frozen=True)
class CodeLine:
    """An operation in words, or one that gathers, of which only the registers are told."""

    text: str
    code: Code
    reads: tuple[int, ...]
    """The registers it needs, in the order in which they stand."""
    gone: tuple[int, ...]
    """The registers that nobody reads after it."""


@dataclass(frozen=True, eq=False)
class ProgramForm:
    """What programs have in common that can share a function: their lines, and where numbers come from.

    There is one of each.
    """

    lines: tuple[CodeLine, ...]
    numbers: tuple[tuple[int, str], ...]
    """Of each number the operation that has it, and what it is there."""
    cuts: tuple[int, ...]
    """The operations that let a number of ties pass and no more."""
    gathers: tuple[int, ...]
    """The operations that gather."""


@dataclass(frozen=True)
class GeneratedProgram:
    """A program in lines, and what the function that they make is called with."""

    form: ProgramForm
    ops: Sequence[Op]
    numbers: tuple[float, ...]
    words: tuple[tuple[int, bool], ...]
    """Each word, and whether the number of the first element is added to it."""

    def words_at(self, done: int) -> list[int]:
        """The words for a block before which so many elements have been done, as torch holds 32 bits."""
        moved = (word + done if moves else word for word, moves in self.words)
        return [((value + (1 << 31)) & 0xFFFFFFFF) - (1 << 31) for value in moved]

    def names(self, taps: int) -> list[str]:
        """Those that the lines use for what they are given, without the counts of ties."""
        given = [*(f"tap{n}" for n in range(taps)), "out"]
        given += [f"n{n}" for n in range(len(self.numbers))]
        return given + [f"w{n}" for n in range(len(self.words))]


def generate(program: Program) -> GeneratedProgram:
    """Write a program down."""
    ops = program.operations()
    form = _form(tuple((op.code, op.dst, op.a, op.b, op.third, op.counted == 0) for op in ops))
    numbers = tuple(float(np.float32(_NUMBERS[name](ops[place]))) for place, name in form.numbers)
    words = [
        word for op in ops if op.code is Code.DRAW for word in ((_limit(op.p), False), (op.low, True), (op.high, False))
    ]
    return GeneratedProgram(form, ops, numbers, tuple(words))


@cache
def _form(ops: tuple[_Bare, ...]) -> ProgramForm:
    numbers: list[tuple[int, str]] = []
    cuts: list[int] = []
    lines: list[CodeLine] = []
    words = 0
    gone = _gone_after(ops)
    for place, op in enumerate(ops):
        code, dst, a, b, second, _ = op
        line = _line(op)
        parts: dict[str, Any] = {"dst": dst, "a": a, "b": b, "second": second, "left": f"left{len(cuts)}"}
        for name in _NUMBERS:
            if f"{{{name}}}" in line:
                parts[name] = f"n{len(numbers)}"
                numbers.append((place, name))
        if code is Code.DRAW:
            for name in ("limit", "low", "between"):
                parts[name] = f"w{words}"
                words += 1
        if code is Code.CUT:
            cuts.append(place)
        lines.append(CodeLine(line.format(**parts), code, _registers(op)[1], tuple(gone[place])))
    gathers = tuple(place for place, op in enumerate(ops) if op[0] in GATHERING)
    return ProgramForm(tuple(lines), tuple(numbers), tuple(cuts), gathers)


def _line(op: _Bare) -> str:
    if op[0] in GATHERING:
        return ""
    return _FIRST_AGREES if op[0] is Code.AGREE_INTO and op[-1] else _LINES[op[0]]


def _inverse(number: float) -> float:
    """As float32 rounds it."""
    return float(np.float32(1) / np.float32(number)) if np.float32(number) else math.inf


def _limit(chance: float) -> int:
    """The largest int32 hash that is kept. Its upper 24 bits, over 2^24 and plus 1/2, must lie below the chance."""
    kept = math.ceil(float(np.float32(chance)) * 2**24)
    return min(max(kept, 0), 2**24) * 256 - 2**31 - 1


def _registers(op: _Bare) -> tuple[set[int], tuple[int, ...]]:
    """Those that an operation sets, and those that it reads."""
    code, dst, a, b, second, _ = op
    if code in GATHERING:
        return set(), tuple(reads(code, dst, a, b, second))
    line, numbers = _line(op), {"dst": dst, "a": a, "b": b, "second": second}
    there = {name: f"r{{{name}}}" for name in numbers if f"r{{{name}}}" in line}
    set_ = {numbers[name] for name, text in there.items() if f"{text} =" in line}
    read = tuple(numbers[name] for name, text in there.items() if line.count(text) > line.count(f"{text} ="))
    return set_, read


def _gone_after(ops: Sequence[_Bare]) -> list[list[int]]:
    """For each operation the registers that nobody reads after it."""
    gone: list[list[int]] = [[] for _ in ops]
    needed: set[int] = set()
    for place in range(len(ops) - 1, -1, -1):
        set_, read = _registers(ops[place])
        gone[place] = sorted((set_ | set(read)) - needed)
        needed = (needed - set_) | set(read)
    return gone


_NUMBERS: Mapping[str, Callable[[Op], float]] = {
    "p": lambda op: op.p,
    "q": lambda op: op.q,
    "inverse": lambda op: _inverse(op.p),
    "three": lambda op: 3.0,
    "third": lambda op: 1 / 3,
}


TorchFunction: TypeAlias = Callable[..., tuple[list[tuple[Tensor, ...]], Tensor]]
"""Gives the registers that are gathered, and a number that is finite if all that was read and written is."""
_KNOWN: dict[tuple[ProgramForm, int], TorchFunction] = {}


def torch_function(program: GeneratedProgram, taps: int) -> TorchFunction:
    """The function of a program, which all programs of its form share."""
    key = (program.form, taps)
    if key not in _KNOWN:
        names = {name: value for name, value in vars(torch_ops).items() if not name.startswith("_")}
        exec(torch_source(program, taps), names)
        _KNOWN[key] = names["merged"]
    return _KNOWN[key]


def torch_source(program: GeneratedProgram, taps: int) -> str:
    """Its text."""
    names = [*program.names(taps), *(f"left{number}" for number in range(len(program.form.cuts)))]
    body = ["found = []"]
    if any(line.code is Code.DRAW for line in program.form.lines):
        body.append("place = places(tap0)")
    for line in program.form.lines:
        body.append(line.text or f"found.append(({''.join(f'r{register}, ' for register in line.reads)}))")
        if line.gone:
            body.append("del " + ", ".join(f"r{register}" for register in line.gone))
    body.append(f"return found, watched(out, {', '.join(f'tap{number}' for number in range(taps))})")
    return f"def merged({', '.join(names)}):\n    " + "\n    ".join(body) + "\n"
