"""Runs a program of the vector machine on tensors of any device: the second machine beside machine.c.

In: blocks of stored numbers on the device. Out: merged numbers on the device, and what a pass gathers, in the arrays of
the program. Between them there is one tensor for each register, or, where a kernel can be made, none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from smelt.engine.run.gpu.accumulators import Gathered
from smelt.engine.run.gpu.codegen import written
from smelt.engine.run.gpu.kernel import Kernel, kernel
from smelt.engine.run.gpu.torch_program import Plain, plain

if TYPE_CHECKING:
    from smelt.engine.run.cpu.program import Program

__all__ = ["TensorRun"]


class TensorRun:
    """A finished program and how far its pass has come. Belongs to one thread and its stream."""

    def __init__(self, program: Program, device: torch.device, kernels: bool = False):
        self._program, self._device, self.kernels = program, device, kernels
        self._written, ops = written(program), program.operations()
        self._gathered = Gathered(ops, self._written.form.gathers, device)
        self._kernel: Kernel | None = None
        self._plain: Plain | None = None
        self._counted = [ops[place].counted for place in self._written.form.cuts]
        self._left: list[Tensor] = []
        self._done = 0
        self._words: list[int] = []

    def count(self, op: int) -> int:
        """What an operation that counts has found."""
        return self._gathered.counts[op]

    def feed(self, taps: Sequence[Tensor], out: Tensor | None = None) -> Tensor:
        """The next elements, as flat tensors in their stored formats; a number that is finite if all of them are."""
        self._words = self._written.words_at(self._done)
        self._done += taps[0].numel()
        if self.kernels and self._kernel is None:
            self._kernel = kernel(self._written, taps, out)
            self.kernels = self._kernel is not None
        if self._kernel is not None:
            met = self._kernel(self._written, taps, out, self._words)
            self._gathered.add_met(met)
            return met.watched
        return self._feed_plain(taps, out)

    def again(self, taps: Sequence[Tensor], out: Tensor) -> Tensor | None:
        """The last block once more in the plain form, if it was done by a kernel, which may have met something odd."""
        return self._feed_plain(taps, out) if self._kernel is not None else None

    def _feed_plain(self, taps: Sequence[Tensor], out: Tensor | None) -> Tensor:
        if self._plain is None:
            self._plain = plain(self._written, len(taps))
            self._left = [torch.tensor(count, device=self._device) for count in self._counted]
        found, watched = self._plain(*taps, out, *self._written.numbers, *self._words, *self._left)
        self._gathered.add_registers(found)
        return watched

    def settle(self) -> None:
        """The device has done the last block: fetch what is not summed there."""
        self._gathered.settle()

    def finish(self) -> None:
        """Put what was gathered into the arrays of the program."""
        self._gathered.finish(self._program.held)
