"""A generated program as one Triton kernel: for each element all is read once and written once.

    def merged(tap0, tap1, out, n0, flag, count, BLOCK: tl.constexpr):
        part = tl.program_id(0)
        place = part * BLOCK + tl.arange(0, BLOCK)
        here = place < count
        good = tl.zeros([BLOCK], tl.float32)
        tap0 = tl.load(tap0 + place, here, 0.0)
        good = fused(load(tap0), 0.0, good)
        ...

`good` stays 0 as long as numbers are finite. Where it does not, or where a quick division may be wrong
(triton_division.py), the flag is raised, and the block is looked at once more in torch.

The kernel must give the bits of the torch function, because which of the two is used depends on the machine. So the
first elements of each kernel are run in both forms; a kernel that differs in a bit is not used, and says so.

A quick division is x (1/p) with one correction. Whether that is x / p, rounded, for every x is tried out: only the
digits of x matter: there are 2^23 of them. What the correction gives is reckoned in float64, which holds every product
of two float32 numbers; a sum that might round differently there counts as wrong.
"""

from __future__ import annotations

import importlib.util
import itertools
import linecache
import logging
import math
import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from smelt.engine.run.cpu.operations import Code
from smelt.engine.run.gpu.codegen import GATHERING, CodeLine, GeneratedProgram, torch_function

__all__ = ["SLOTS", "Kernel", "KernelResult", "has_kernels", "is_exact", "kernel", "kernel_source", "refused"]

_DIGITS, _AT_ONCE = 1 << 23, 1 << 20
_HALFWAY = 1 << 28
"""The bits of a float64 beyond those of a float32 where it lies between two of these."""


@cache
def is_exact(divisor: float, device: torch.device) -> bool:
    """Reckoned where the kernel will run."""
    if not 2.0**-60 < abs(divisor) < 2.0**60:
        return False
    p = torch.tensor(divisor, dtype=torch.float64, device=device)
    inverse = (1 / p).float().double()
    for start in range(0, _DIGITS, _AT_ONCE):
        bits = torch.arange(start, start + _AT_ONCE, dtype=torch.int32, device=device) + 0x3F800000
        x = bits.view(torch.float32).double()
        first = (x * inverse).float().double()
        corrected = first - (first * p - x) * inverse
        between = corrected.view(torch.int64) & (2 * _HALFWAY - 1) == _HALFWAY
        if bool(((corrected.float() != (x / p).float()) | between).any()):
            return False
    return True


_WARPS, _EACH, _MANY, _EACH_OF_MANY = 4, 8, 5, 4
"""Warps of one program of the kernel, and elements of each thread: eight half-precision numbers are read at once, but
of more than five models, where they vote, so many do not fit its registers."""
_TRIED = 1 << 14
_DIVIDES = re.compile(r"^(r\d+) = (over|divide|variance)\((.*)\)$")
SLOTS = {Code.DOT: 1, Code.DOTS: 6, Code.MASSES: 2, Code.EQUAL: 1, Code.BRACKET: 4}
"""How many sums a gathering operation has in each program of the kernel."""
_KNOWN: dict[tuple[object, ...], Kernel | None] = {}
_NUMBERS = itertools.count()
_LOCK = threading.Lock()
refused: list[str] = []
"""What is known of kernels that are not used."""


@cache
def has_kernels() -> bool:
    """Whether kernels can be made here at all."""
    return importlib.util.find_spec("triton") is not None


@dataclass(frozen=True)
class KernelResult:
    """What a kernel has been given space for and has found, on the device."""

    watched: Tensor
    """Finite if all that was read and written is, and nothing is odd."""
    sums: Tensor | None
    """Of each slot, one after the other, for each program of the kernel."""
    inside: tuple[Tensor, ...]
    """For each bracket the magnitudes inside, in no order, and space that was not needed."""
    known: Tensor | None
    """How many these are."""


class Kernel:
    """The kernel of all programs of one form."""

    def __init__(self, function: Any, program: GeneratedProgram):
        self._function = function
        self._slots = sum(SLOTS.get(line.code, 0) for line in program.form.lines)
        self._votes = any(line.code is Code.DIVIDE for line in program.form.lines)
        self._brackets = sum(line.code is Code.BRACKET for line in program.form.lines)

    def __call__(
        self, program: GeneratedProgram, taps: Sequence[Tensor], out: Tensor | None, words: Sequence[int]
    ) -> KernelResult:
        count, device = taps[0].numel(), taps[0].device
        block = 32 * _WARPS * (_EACH_OF_MANY if self._votes and len(taps) > _MANY else _EACH)
        parts = -(-count // block)
        watched = torch.zeros(1, device=device)
        sums = torch.empty((self._slots, parts), dtype=torch.float64, device=device) if self._slots else None
        inside = tuple(torch.empty(count, dtype=torch.int32, device=device) for _ in range(self._brackets))
        known = torch.zeros(self._brackets, dtype=torch.int32, device=device) if inside else None
        given = [*taps, *([] if out is None else [out]), *program.numbers, *words, *_bounds(program), watched]
        given += [one for one in (sums, *inside, known) if one is not None]
        self._function[(parts,)](*given, count, BLOCK=block, num_warps=_WARPS, enable_fp_fusion=False)
        return KernelResult(watched, sums, inside, known)


def kernel(program: GeneratedProgram, taps: Sequence[Tensor], out: Tensor | None) -> Kernel | None:
    """One for these formats, tried out on the first elements of what it will be given; None where there is none."""
    if program.form.cuts or any(line.code in (Code.COARSE, Code.FINE) for line in program.form.lines):
        return None  # which count as they go
    formats = tuple(one.dtype for one in [*taps, *([out] if out is not None else [])])
    quick = out is not None and _divides_quickly(program, taps[0].device)
    key = (program.form, formats, taps[0].device, quick)
    with _LOCK:
        if key not in _KNOWN:
            try:
                _KNOWN[key] = _made(program, [tap[:_TRIED].contiguous() for tap in taps], out, quick)
            except Exception as error:  # of a compiler that is not up to it: torch is
                _KNOWN[key] = None
                _not_used(program, len(taps), f"could not be made ({error})")
        return _KNOWN[key]


def _made(program: GeneratedProgram, taps: list[Tensor], out: Tensor | None, quick: bool) -> Kernel | None:
    made, words = (
        Kernel(_defined(kernel_source(program, len(taps), out is not None, quick)), program),
        program.words_at(0),
    )
    if out is None:  # what is summed depends on the order
        made(program, taps, None, words)
        return made
    ours, theirs = torch.empty_like(out[:_TRIED]), torch.empty_like(out[:_TRIED])
    odd = not bool(torch.isfinite(made(program, taps, ours, words).watched))
    torch_function(program, len(taps))(*taps, theirs, *program.numbers, *words)
    if odd or torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8)):
        return made
    worst = float((ours.float() - theirs.float()).abs().max())
    _not_used(program, len(taps), f"differs by up to {worst:g}")
    return None


def _not_used(program: GeneratedProgram, taps: int, reason: str) -> None:
    refused.append(f"{reason}:\n{kernel_source(program, taps, True, True)}")
    logging.getLogger(__name__).warning("a kernel for this merge is not used: it %s", reason)


def _divides_quickly(program: GeneratedProgram, device: torch.device) -> bool:
    """Whether its divisors are known to be good for that, and no sum of its numbers can make a quotient too small."""
    divisors = {
        op.p if op.code is Code.DIVIDE_BY else 3.0 for op in program.ops if op.code in (Code.DIVIDE_BY, Code.VARIANCE)
    }
    large = len(program.numbers) > 1 << 10 or any(2.0**10 < abs(number) < math.inf for number in program.numbers)
    return not large and all(is_exact(float(np.float32(one)), device) for one in divisors)


def kernel_source(program: GeneratedProgram, taps: int, stores: bool, quick: bool) -> str:
    """The text of the kernel."""
    codes = [line.code for line in program.form.lines]
    names, brackets = program.names(taps), codes.count(Code.BRACKET)
    if not stores:
        names.remove("out")
    names += [*(f"b{n}" for n in range(len(_bounds(program)))), "flag"]
    names += ["sums"] if any(code in SLOTS for code in codes) else []
    names += [*(f"inside{n}" for n in range(brackets)), *(["known"] if brackets else [])]
    body = ["part = tl.program_id(0)", "place = part * BLOCK + tl.arange(0, BLOCK)", "here = place < count"]
    body += ["good = tl.zeros([BLOCK], tl.float32)", "odd = tl.full([BLOCK], 0xFFFFFFFF, tl.uint32)"]
    for n in range(taps):
        body += [f"tap{n} = tl.load(tap{n} + place, here, 0.0)", f"good = fused(load(tap{n}), 0.0, good)"]
    gathered = _GatheringLines()
    for line in program.form.lines:
        if line.code is Code.STORE:
            body += [f"merged = rounded(r{line.reads[0]}, out)", "tl.store(out + place, merged, here)"]
            body.append("good = fused(load(merged), 0.0, good)")
        elif line.code in GATHERING:
            body += gathered.lines(line)
        else:
            body += [_DIVIDES.sub(rf"\1, odd = \2_{'quick' if quick else 'exact'}ly(\3, odd)", line.text)]
    body.append('good = tl.where(odd < TOO_SMALL, float("nan"), good)')
    body.append('tl.store(flag, float("inf"), tl.sum(good, 0) != 0.0)')
    text = "\n    ".join(part for line in body for part in line.split("; "))
    return f"def merged({', '.join(names)}, count, BLOCK: tl.constexpr):\n    {text}\n"


class _GatheringLines:
    """Lines of what gathers, each with slots of its own."""

    def __init__(self) -> None:
        self._slots = self._bounds = self._brackets = 0

    def lines(self, line: CodeLine) -> list[str]:
        code, registers = line.code, [f"r{register}" for register in line.reads]
        slot, self._slots = self._slots, self._slots + SLOTS[code]
        if code is Code.EQUAL:
            return [self._count(slot, f"magnitude({registers[0]}) == {self._bound()}")]
        if code is Code.BRACKET:
            return self._around(slot, registers[0])
        into = [f"sums + {slot + n} * tl.num_programs(0) + part" for n in range(SLOTS[code])]
        if code is Code.MASSES:
            return [f"gather_masses({into[0]}, tl.num_programs(0), {registers[0]}, {registers[1]})"]
        pairs = [(i, j) for i in range(3) for j in range(i + 1)] if code is Code.DOTS else [(0, len(registers) - 1)]
        return [
            f"gather_dot({where}, {registers[i]}, {registers[j]})" for where, (i, j) in zip(into, pairs, strict=True)
        ]

    def _around(self, slot: int, register: str) -> list[str]:
        low, high, number = self._bound(), self._bound(), self._brackets
        self._brackets += 1
        met = [f"bits > {high}", f"bits == {high}", f"(bits == {low}) & ({low} != {high})", "bits < 0x8000"]
        return [
            f"bits = magnitude({register})",
            *(self._count(slot + n, what) for n, what in enumerate(met)),
            f"gather_inside(inside{number}, known + {number}, bits, here & (bits > {low}) & (bits < {high}))",
        ]

    def _count(self, slot: int, what: str) -> str:
        return f"gather_count(sums + {slot} * tl.num_programs(0) + part, here & ({what}))"

    def _bound(self) -> str:
        self._bounds += 1
        return f"b{self._bounds - 1}"


def _bounds(program: GeneratedProgram) -> list[int]:
    """The magnitudes, as bits, that operations that count compare with."""
    found: list[int] = []
    for op in program.ops:
        if op.code is Code.EQUAL:
            found.append(op.low)
        elif op.code is Code.BRACKET:
            found += [op.low, op.high]
    return found


def _defined(text: str) -> Any:
    import triton

    from smelt.engine.run.gpu import triton_division, triton_ops

    names = {**vars(triton_ops), **vars(triton_division), "__name__": "smelt.engine.run.gpu.merged"}
    file = f"<merged {next(_NUMBERS)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)  # where the compiler will look
    exec(compile(text, file, "exec"), names)
    given = text[text.index("(") + 1 : text.index(")")].split(", ")
    return triton.jit(names["merged"], do_not_specialize=[name for name in given if name[0] in "wb"])
