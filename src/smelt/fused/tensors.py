"""Runs a program of the vector machine on tensors of any device: the second machine beside machine.c.

In: blocks of stored numbers on the device. Out: merged numbers on the device, and what a pass gathers, in the arrays of
the program. Between them there is one tensor for each register, or, in the compiled form, none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from smelt.fused.compiled import ROW, Function, compiled, plain, signed
from smelt.fused.operation import Code
from smelt.fused.written import written
from smelt.ops.random import counter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.fused.program import Op, Program

__all__ = ["LEAST", "TensorRun"]

LEAST = 1 << 16
"""Elements below which a block is not worth a compiled kernel."""
_FINE_BITS, _COARSE_BITS, _COPIES = 15, 16, 16
_SUMS = {Code.DOT: 1, Code.DOTS: 6, Code.MASSES: 2}
"""How many sums an operation has."""


class TensorRun:
    """A finished program and how far its pass has come. Belongs to one thread and its stream."""

    def __init__(self, program: Program, device: torch.device, compiles: bool = False):
        self._ops, self._held, self._device, self.compiles = program.operations(), program.held, device, compiles
        self._written = written(program)
        self._function = plain(self._written.source)
        self._kernel: Function | None = None
        self._numbers: Tensor | None = None
        self._keys: Tensor | None = None
        self._left: list[Tensor] = []
        self._found: dict[int, Tensor] = {}
        self._done = 0
        self._counts: dict[int, int] = {}

    def count(self, op: int) -> int:
        """What an operation that counts has found."""
        return self._counts[op]

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
        for place, known in self._found.items():
            op, into, total = (
                self._ops[place],
                self._held.get(place),
                _counted(known, self._ops[place]),
            )
            if op.code is Code.EQUAL:
                self._counts[place] = int(total)
            elif op.code is Code.FINE:  # how often each occurs, as so many of them: their order does not matter
                assert into is not None
                bits = np.repeat(np.arange(len(total), dtype=np.uint16), total)
                into[: len(bits)] = bits
                self._counts[place] = len(bits)
            else:
                assert into is not None
                into[:] = total

    def _feed_plain(self, taps: Sequence[Tensor], out: Tensor | None) -> Tensor:
        if not self._left:
            ops = (self._ops[place] for place in self._written.cuts)
            self._left = [torch.tensor(op.counted, device=self._device) for op in ops]
        words = signed([word + self._done if moves else word for word, moves in self._written.words])
        found, watched = self._function(taps, out, self._written.numbers, words, self._left)
        assert watched is not None
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
        """Nothing here waits for the device."""
        for place, registers in zip(self._written.gathers, found, strict=True):
            op = self._ops[place]
            known = self._found.get(place)
            if known is None:
                known = self._found[place] = _nothing_yet(op, self._device)
            _add_to(known, op, *(one.reshape(-1) for one in registers))


def _nothing_yet(op: Op, device: torch.device) -> Tensor:
    if op.code in _SUMS:
        return torch.zeros(_SUMS[op.code], dtype=torch.float64, device=device)
    if op.code is Code.EQUAL:
        return torch.zeros((), dtype=torch.int64, device=device)
    bins = _COPIES << _COARSE_BITS if op.code is Code.COARSE else 3 << _FINE_BITS
    return torch.zeros(bins, dtype=torch.int32, device=device)


def _products(*rows: Tensor) -> Tensor:
    """Of all rows with each other: aa, ab, bb, ac, bc, cc."""
    exact = [row.double() for row in rows]
    return torch.stack([(left * right).sum() for i, left in enumerate(exact) for right in exact[: i + 1]])


def _add_to(known: Tensor, op: Op, row: Tensor, *others: Tensor) -> None:
    if op.code is Code.DOT:
        known.add_((row.double() * others[0].double()).sum())
    elif op.code is Code.DOTS:
        known.add_(_products(row, *others))
    elif op.code is Code.MASSES:
        mass = row.abs()
        known.add_(torch.stack([one.sum(dtype=torch.float64) for one in (mass, mass * (others[0] != 0))]))
    elif op.code is Code.EQUAL:
        known.add_((row.abs().view(torch.int32) == op.low).sum())
    else:
        bits, place = row.abs().view(torch.int32), counter(row.numel(), row.device)
        if op.code is Code.COARSE:  # in copies: few bins hold most numbers, and on a GPU the writers of one must queue
            bins = ((place & (_COPIES - 1)) << _COARSE_BITS).add_(bits >> _FINE_BITS)
        else:  # what lies outside is spread over places of its own, for the same reason
            inside, outside = bits - op.low, (place & 0xFFFF) + (1 << _FINE_BITS)
            bins = torch.where((bits ^ op.low) < (1 << _FINE_BITS), inside, outside)
        known.index_add_(0, bins, known.new_ones(1).expand(len(bins)))


def _counted(known: Tensor, op: Op) -> NDArray[Any]:
    if op.code is Code.COARSE:
        known = known.view(_COPIES, -1).sum(0)
    elif op.code is Code.FINE:
        known = known[: 1 << _FINE_BITS]
    return np.asarray(known.cpu().numpy())
