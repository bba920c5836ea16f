"""Runs a program of the vector machine on tensors of any device: the second machine beside machine.c.

In: blocks of stored numbers on the device. Out: merged numbers on the device, and what a pass gathers, in the arrays of
the program as machine.c leaves it there; counts and sums stay on the device until the pass is over. Between them there
is one tensor for each register, or, where a kernel can be made, none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from smelt.engine.run.cpu.operations import Code
from smelt.engine.run.gpu.codegen import TorchFunction, generate, torch_function
from smelt.engine.run.gpu.kernel import SLOTS, Kernel, KernelResult, kernel
from smelt.ops.random import counter

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.engine.run.cpu.program import Op, Program

__all__ = ["Accumulators", "TensorRun"]

_FINE_BITS, _COARSE_BITS, _COPIES = 15, 16, 16


class Accumulators:
    """Of one pass. Nothing here waits for the device before `settle` and `finish`."""

    def __init__(self, ops: Sequence[Op], places: Sequence[int], device: torch.device):
        self._ops, self._device = {place: ops[place] for place in places}, device
        self._found: dict[int, Tensor] = {}
        self._inside: dict[int, list[NDArray[np.uint32]]] = {}
        self._kernel_result: KernelResult | None = None
        self.counts: dict[int, int] = {}

    def add_registers(self, found: Sequence[tuple[Tensor, ...]]) -> None:
        """What the torch function gives."""
        for (place, op), registers in zip(self._ops.items(), found, strict=True):
            if op.code is Code.BRACKET:
                bits = registers[0].abs().view(torch.int32)
                self._known(place).add_(_around(bits, op))
                self._keep(place, bits[(bits > op.low) & (bits < op.high)])
            else:
                _add_to(self._known(place), op, *registers)

    def add_kernel_result(self, result: KernelResult) -> None:
        """What a kernel gives."""
        if result.sums is None:
            return
        self._kernel_result, totals, at = result, result.sums.sum(1), 0
        for place, op in self._ops.items():
            slots, known = SLOTS[op.code], self._known(place)
            known.add_(totals[at : at + slots].to(known.dtype).view(known.shape))
            at += slots

    def settle(self) -> None:
        """The block is done: fetch what its kernel has put aside."""
        result, self._kernel_result = self._kernel_result, None
        if result is None or result.known is None:
            return
        places = [place for place, op in self._ops.items() if op.code is Code.BRACKET]
        for place, bits, known in zip(places, result.inside, result.known.tolist(), strict=True):
            self._keep(place, bits[:known])

    def finish(self, arrays: dict[int, NDArray[Any]]) -> None:
        """Put what was gathered into the arrays of the program."""
        for place, op in self._ops.items():
            if place not in self._found:  # nothing came by
                self.counts[place] = 0
                continue
            total, into = _counted(self._found[place], op), arrays.get(place)
            if op.code is Code.EQUAL:
                self.counts[place] = int(total)
                continue
            assert into is not None
            if op.code is Code.FINE:  # how often each occurs, as so many of them: their order does not matter
                bits = np.repeat(np.arange(len(total), dtype=np.uint16), total)
                into[: len(bits)] = bits
                self.counts[place] = len(bits)
            elif op.code is Code.BRACKET:
                inside = np.concatenate(self._inside.get(place) or [np.empty(0, np.uint32)])
                into[:8].view(np.int64)[:] = total
                into[8 : 8 + len(inside)] = inside
                self.counts[place] = len(inside)
            else:
                into[:] = total

    def _known(self, place: int) -> Tensor:
        if place not in self._found:
            self._found[place] = _nothing_yet(self._ops[place], self._device)
        return self._found[place]

    def _keep(self, place: int, bits: Tensor) -> None:
        self._inside.setdefault(place, []).append(bits.cpu().numpy().view(np.uint32))


def _nothing_yet(op: Op, device: torch.device) -> Tensor:
    if op.code is Code.EQUAL:
        return torch.zeros((), dtype=torch.int64, device=device)
    if op.code is Code.BRACKET:
        return torch.zeros(4, dtype=torch.int64, device=device)
    if op.code in SLOTS:
        return torch.zeros(SLOTS[op.code], dtype=torch.float64, device=device)
    bins = _COPIES << _COARSE_BITS if op.code is Code.COARSE else 3 << _FINE_BITS
    return torch.zeros(bins, dtype=torch.int32, device=device)


def _around(bits: Tensor, op: Op) -> Tensor:
    """How many are above the bracket, at its upper and at its lower end, and as good as zero."""
    low, high = op.low, op.high
    bottom = (bits == low) if low != high else torch.zeros_like(bits, dtype=torch.bool)
    return torch.stack([one.sum() for one in (bits > high, bits == high, bottom, bits < 0x8000)])


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


class TensorRun:
    """A finished program and how far its pass has come. Belongs to one thread and its stream."""

    def __init__(self, program: Program, device: torch.device, kernels: bool = False):
        self._program, self._device, self.kernels = program, device, kernels
        self._generated, ops = generate(program), program.operations()
        self._accumulators = Accumulators(ops, self._generated.form.gathers, device)
        self._kernel: Kernel | None = None
        self._torch_function: TorchFunction | None = None
        self._counted = [ops[place].counted for place in self._generated.form.cuts]
        self._left: list[Tensor] = []
        self._done = 0
        self._words: list[int] = []

    def count(self, op: int) -> int:
        """What an operation that counts has found."""
        return self._accumulators.counts[op]

    def feed(self, taps: Sequence[Tensor], out: Tensor | None = None) -> Tensor:
        """The next elements, as flat tensors in their stored formats; a number that is finite if all of them are."""
        self._words = self._generated.words_at(self._done)
        self._done += taps[0].numel()
        if self.kernels and self._kernel is None:
            self._kernel = kernel(self._generated, taps, out)
            self.kernels = self._kernel is not None
        if self._kernel is not None:
            result = self._kernel(self._generated, taps, out, self._words)
            self._accumulators.add_kernel_result(result)
            return result.watched
        return self._feed_torch(taps, out)

    def again(self, taps: Sequence[Tensor], out: Tensor) -> Tensor | None:
        """The last block once more in torch, if it was done by a kernel, which may have met something odd."""
        return self._feed_torch(taps, out) if self._kernel is not None else None

    def _feed_torch(self, taps: Sequence[Tensor], out: Tensor | None) -> Tensor:
        if self._torch_function is None:
            self._torch_function = torch_function(self._generated, len(taps))
            self._left = [torch.tensor(count, device=self._device) for count in self._counted]
        found, watched = self._torch_function(*taps, out, *self._generated.numbers, *self._words, *self._left)
        self._accumulators.add_registers(found)
        return watched

    def settle(self) -> None:
        """The device has done the last block: fetch what is not summed there."""
        self._accumulators.settle()

    def finish(self) -> None:
        """Put what was gathered into the arrays of the program."""
        self._accumulators.finish(self._program.arrays)
