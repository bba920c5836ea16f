"""The vector machine's backend on a GPU: stored bytes go over the link as they are, and come back merged and rounded.

There are a few buffers, each for one block on both sides of the link, pinned on the host's. A thread that has one
reads, waits for the GPU, and writes; meanwhile others do the same in theirs: together they are what double buffers
would be. Work is started by one thread at a time (stream.py). On the device there are the buffers, and the registers of
one block.
"""

from __future__ import annotations

import os
import queue
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smelt.engine.plan.plan import Span
from smelt.engine.run.cpu.backend import VectorBackend
from smelt.engine.run.cpu.fold_pass import wanted_share
from smelt.engine.run.cpu.rule_table import Support, is_readable, stored_dtype
from smelt.engine.run.gpu.kernel import has_kernels
from smelt.engine.run.gpu.launch import TensorRun
from smelt.engine.run.gpu.stream import BlockBuffer, Launcher
from smelt.engine.run.non_finite import refuse_inputs, refuse_result
from smelt.formats import dtype as dtypes

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Item, Tap
    from smelt.engine.run.backend import Advance, Write
    from smelt.ops.fold import Fold

__all__ = ["GpuBackend", "gpu_backend"]

_BLOCK = 1 << 25
"""Bytes of a block of all models and of the result. With half of it an H200 took about 1.6 times as long; with twice as
much 0.23 s instead of 0.26, for twice the pinned memory."""
_STEP = 1 << 10
"""Blocks of larger tensors have multiples of so many elements."""
_BLOCKS_OF_A_SPAN = 4
_BUFFERS = 8
"""Blocks that may be under way at once. Eight threads read nearly as fast as sixteen, and pinned memory takes long to
make, about half a second for a gigabyte."""
_WORTH_KERNELS = 1 << 30
"""Bytes that a plan must read before a kernel earns the second that it takes to make the first time."""


def gpu_backend(seed: int, device: str, write: Write, advance: Advance, work: int) -> GpuBackend | None:
    """The backend of a device for a plan that reads `work` bytes.

    SMELT_FUSED=0 runs without it, SMELT_KERNELS says whether kernels are made.
    """
    if os.environ.get("SMELT_FUSED") == "0":
        return None
    asked = os.environ.get("SMELT_KERNELS")
    kernels = work >= _WORTH_KERNELS if asked is None else asked == "1"
    kernels = kernels and has_kernels()
    return GpuBackend(seed, torch.device(device), write, advance, kernels, with_folds=kernels)


class GpuBackend(VectorBackend):
    """One run's work on spans. Shared by all threads."""

    def __init__(
        self,
        seed: int,
        device: torch.device,
        write: Write,
        advance: Advance,
        kernels: bool = False,
        *,
        with_folds: bool = True,
    ):
        """With `with_folds`, stages that see all numbers before they change one are worked on too. Without kernels they
        were slower than eager blocks: 1.5 s for a model stock instead of 1.2.
        """
        super().__init__(seed, write, advance)
        self._with_folds = with_folds
        if str(device) == "cuda":  # the GPU that is current in the thread that asked
            device = torch.device("cuda", torch.cuda.current_device())
        self._device, self._kernels = device, kernels
        self._support = Support(self._reaches)
        self._launcher = Launcher(device)
        self._free_buffers: queue.SimpleQueue[BlockBuffer | None] = queue.SimpleQueue()
        for _ in range(_BUFFERS):
            self._free_buffers.put(None)
        self._threads = torch.get_num_threads()

    def close(self) -> None:
        torch.set_num_threads(self._threads)
        for _ in range(_BUFFERS):  # all are free: what they take on the device goes at once, whoever still knows this
            self._free_buffers.get()

    def supports(self, item: Item) -> bool:
        if not super().supports(item):
            return False
        return item.copied or (item.unit == "element" and (self._with_folds or not _has_folds(item)))

    def _reaches(self, tap: Tap) -> bool:
        there = tap.source.on_device(tap.key)
        return is_readable(tap) if there is None else there.device == self._device

    def is_small(self, item: Item) -> bool:
        return False

    def spans(self, item: Item) -> list[Span]:
        count = item.info.count
        size = sum(dtypes.item_size(stored_dtype(tap)) for tap in item.all_taps) + dtypes.item_size(item.info.dtype)
        step = max(1, _BLOCK // size // _STEP) * _STEP
        wide = step * _BLOCKS_OF_A_SPAN
        return [Span(start, min(start + wide, count), step) for start in range(0, count, wide)]

    def can_sample(self, item: Item) -> bool:
        """Not without kernels, nor of what lies on the device: there a histogram costs less than many small pieces."""
        return self._kernels and all(tap.source.on_device(tap.key) is None for tap in item.all_taps)

    def fold_span(
        self, item: Item, index: int, fold: Fold, folds: Mapping[int, Fold], span: Span, shows_progress: bool
    ) -> Any:
        program, part = self._fold_program(item, index, fold, folds, span)
        run, share = TensorRun(program, self._device, self._kernels), wanted_share(fold)
        formats = [dtypes.torch_dtype(stored_dtype(tap)) for tap in item.all_taps]
        with self._buffer_for_block() as buffer:
            for start, stop in span.blocks():
                if share < 1:  # what is not finite in it is told of by the pass that follows
                    read, count = self._read_sample(item, start, stop, share)
                    if not count:
                        continue
                    buffer.allocate([(count, dtype) for dtype in formats])
                    for here, one in zip(buffer.on_host, read, strict=True):
                        here[:] = one.data
                else:
                    buffer.allocate([(stop - start, dtype) for dtype in formats])
                    self._fill(item, start, buffer)
                with self._launcher.on_stream_of(buffer):
                    taps = self._on_device(item, start, stop, buffer)
                    buffer.copy_back(run.feed(taps))
                if not buffer.is_finite() and share == 1:
                    self._refuse(item, taps, None, start)
                run.settle()
        run.finish()  # its numbers are there: the buffer has waited for them
        if shows_progress:
            self._advance(item.bytes_of(span.stop - span.start))
        return part(run, (item.order, item.first + span.start))

    def merge_span(self, item: Item, folds: Mapping[int, Fold], span: Span) -> None:
        program, row_factors = self._merge_program(item, folds, span)
        assert row_factors is None, "rows are not supported"
        run = TensorRun(program, self._device, self._kernels)
        formats = [dtypes.torch_dtype(code) for code in (*map(stored_dtype, item.all_taps), item.info.dtype)]
        with self._buffer_for_block() as buffer:
            for start, stop in span.blocks():
                buffer.allocate([(stop - start, dtype) for dtype in formats])
                self._fill(item, start, buffer)
                with self._launcher.on_stream_of(buffer):
                    taps = self._on_device(item, start, stop, buffer)
                    buffer.copy_back(run.feed(taps, buffer.on_device[-1]), last=True)
                if not buffer.is_finite():
                    self._refuse(item, taps, buffer.on_device[-1], start)
                    self._again(run, taps, buffer)
                self._write(item, start, buffer.on_host[-1])
                self._advance(item.bytes_of(stop - start))

    def _again(self, run: TensorRun, taps: Sequence[Tensor], buffer: BlockBuffer) -> None:
        """A block in which something was odd, though all of it is finite, once more without a kernel."""
        with self._launcher.on_stream_of(buffer):
            watched = run.again(taps, buffer.on_device[-1])
            if watched is not None:
                buffer.copy_back(watched, last=True)
        buffer.is_finite()

    @staticmethod
    def _fill(item: Item, start: int, buffer: BlockBuffer) -> None:
        """A block of each model into the host's memory, in its stored format, unless it lies on the device."""
        for part, tap in zip(buffer.on_host, item.all_taps, strict=False):
            if tap.source.on_device(tap.key) is None:
                tap.source.read_bytes(tap.key, start, part)

    def _on_device(self, item: Item, start: int, stop: int, buffer: BlockBuffer) -> list[Tensor]:
        """The same on the device."""
        taps = []
        for number, tap in enumerate(item.all_taps):
            resident = tap.source.on_device(tap.key)
            taps.append(buffer.on_device[number] if resident is None else resident[start:stop])
        buffer.copy_to_device([n for n, tap in enumerate(item.all_taps) if taps[n] is buffer.on_device[n]])
        return taps

    @staticmethod
    def _refuse(item: Item, taps: Sequence[Tensor], out: Tensor | None, start: int) -> None:
        """Name the number that is not finite. There may be none: large ones can overflow the sum that watches."""
        refuse_inputs(item, [one.float().cpu().numpy() for one in taps], start)
        if out is not None:
            refuse_result(item, out.float().cpu().numpy(), start)

    @contextmanager
    def _buffer_for_block(self) -> Iterator[BlockBuffer]:
        """A buffer that nobody else uses; waits for one."""
        torch.set_num_threads(1)
        buffer = self._free_buffers.get() or BlockBuffer(self._device)
        try:
            yield buffer
        finally:
            self._free_buffers.put(buffer)


def _has_folds(item: Item) -> bool:
    return any(run.stage.fold_for(run.parameters) is not None for run in item.stages)
