"""A written program as a torch function: operation by operation, with as many kernels as there are lines.

    def merged(tap0, tap1, out, n0):
        found = []
        r0 = load(tap0)
        ...
        return found, watched(out, tap0, tap1)

A register is forgotten after its last use: what is held at once is what the stages need, never a stack of all models.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor

from smelt.engine.run.cpu.operation import Code
from smelt.engine.run.gpu import torch_ops as words
from smelt.engine.run.gpu.codegen import Form, Written

__all__ = ["Plain", "plain", "source"]

Plain: TypeAlias = Callable[..., tuple[list[tuple[Tensor, ...]], Tensor]]
"""Gives the registers that are gathered, and a number that is finite if all that was read and written is."""
_KNOWN: dict[tuple[Form, int], Plain] = {}


def plain(program: Written, taps: int) -> Plain:
    """The function of a program, which all programs of its form share."""
    key = (program.form, taps)
    if key not in _KNOWN:
        names = {name: value for name, value in vars(words).items() if not name.startswith("_")}
        exec(source(program, taps), names)
        _KNOWN[key] = names["merged"]
    return _KNOWN[key]


def source(program: Written, taps: int) -> str:
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
