"""Runs a program of the vector machine on tensors of any device: the second machine beside machine.c.

In: blocks of stored numbers on the device. Out: merged numbers on the device, and what a pass gathers, in the arrays of
the program. Between them there is one tensor for each register, or, in the compiled form, none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from smelt.fused.compiled import ROW, Function, compiled, plain, signed
from smelt.fused.program import Code
from smelt.fused.written import written
from smelt.ops.random import counter

if TYPE_CHECKING:
    from smelt.fused.program import Op, Program

__all__ = ["LEAST", "TensorRun"]

LEAST = 1 << 16
"""Elements below which a block is not worth a compiled kernel."""
_FINE_BITS, _COARSE_BITS, _COPIES = 15, 16, 64


class TensorRun:
    """A finished program and how far its pass has come. Belongs to one thread and its stream."""

    def __init__(self, program: Program, device: torch.device, compiles: bool = False):
        self._program, self._device, self.compiles = program, device, compiles
        self._written = written(program)
        self._function = plain(self._written.source)
        self._kernel: Function | None = None
        self._numbers: Tensor | None = None
        self._keys: Tensor | None = None
        self._left: list[Tensor] = []
        self._found: dict[int, list[Tensor]] = {place: [] for place in self._written.gathers}
        self._done = 0
        self.ops = program.finish()
        """Afterwards the `count` of those that count is what they found."""

    def feed(self, taps: Sequence[Tensor], out: Tensor | None = None) -> Tensor:
        """The next elements, as flat tensors in their stored formats; numbers that are finite if all of them are."""
        count = taps[0].numel()
        many = count - count % ROW if self.compiles and not self._written.cuts and count >= LEAST else 0
        if (
            many
            and (watched := self._feed_compiled([tap[:many] for tap in taps], None if out is None else out[:many]))
            is not None
        ):
            if many == count:
                return watched
            rest = self._feed_plain([tap[many:] for tap in taps], None if out is None else out[many:])
            return torch.cat([watched, rest[None]])
        return self._feed_plain(taps, out)

    def finish(self) -> None:
        """Put what was gathered into the arrays of the program."""
        for place, parts in self._found.items():
            op, into = self._program.ops[place], self._program.held.get(place)
            if op.code is Code.FINE:
                assert into is not None
                bits = np.concatenate([part.cpu().numpy() for part in parts])
                into[: len(bits)] = bits
                self.ops["count"][place] = len(bits)
                continue
            total = torch.stack(parts).sum(0).cpu().numpy()
            if op.code is Code.EQUAL:
                self.ops["count"][place] = int(total)
            else:
                assert into is not None
                into[:] = total

    def _feed_plain(self, taps: Sequence[Tensor], out: Tensor | None) -> Tensor:
        if not self._left:
            ops = (self._program.ops[place] for place in self._written.cuts)
            self._left = [torch.tensor(op.counted, device=self._device) for op in ops]
        words = signed([word + self._done if moves else word for word, moves in self._written.words])
        found, watched = self._function(taps, out, self._written.numbers, words, self._left)
        self._gather(found)
        self._done += taps[0].numel()
        return watched

    def _feed_compiled(self, taps: Sequence[Tensor], out: Tensor | None) -> Tensor | None:
        rows = [tap.view(-1, ROW) for tap in taps]
        into = None if out is None else out.view(-1, ROW)
        if self._kernel is None:
            self._kernel = compiled(self._written, rows, into)
            self._numbers = torch.tensor(self._written.numbers, dtype=torch.float32, device=self._device)
        if self._kernel is None:
            self.compiles = False
            return None
        if self._keys is None or self._written.words:
            words = signed([word + self._done if moves else word for word, moves in self._written.words])
            self._keys = torch.tensor(words, dtype=torch.int32, device=self._device)
        found, watched = self._kernel(rows, into, self._numbers, self._keys, ())
        self._gather(found)
        self._done += taps[0].numel()
        return watched if watched is not None or out is None else out.sum(dtype=torch.float32)[None]

    def _gather(self, found: Sequence[tuple[Tensor, ...]]) -> None:
        for place, registers in zip(self._written.gathers, found, strict=True):
            part = _gathered(self._program.ops[place], *(one.reshape(-1) for one in registers))
            known = self._found[place]
            if known and part.dtype != torch.uint16:
                known[0] = known[0] + part
            else:
                known.append(part)


def _gathered(op: Op, row: Tensor, other: Tensor | None = None) -> Tensor:
    if op.code is Code.DOT:
        assert other is not None
        return (row.double() * other.double()).sum()
    if op.code is Code.MASS:
        return row.abs().sum(dtype=torch.float64)
    bits = row.abs().view(torch.int32)
    if op.code is Code.COARSE:
        return _counts(bits >> _FINE_BITS)
    if op.code is Code.EQUAL:
        return (bits == op.low).sum()
    inside = bits[(bits >> _FINE_BITS) == (op.low >> _FINE_BITS)]
    return (inside & ((1 << _FINE_BITS) - 1)).to(torch.uint16)


def _counts(bins: Tensor) -> Tensor:
    """How often each bin occurs. On a GPU in 64 copies: few bins hold most numbers, and writers of one must queue."""
    if bins.device.type == "cpu":
        return torch.bincount(bins, minlength=1 << _COARSE_BITS)
    spread = (counter(bins.numel(), bins.device) & (_COPIES - 1)) << _COARSE_BITS
    return torch.bincount(spread.add_(bins), minlength=_COPIES << _COARSE_BITS).view(_COPIES, -1).sum(0)
