"""The eager backend: blocks as float32 tensors, stages as torch functions. Takes every item, on any device.

A thread has one block of every model, and a whole-matrix method one matrix of every model.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smelt.engine.plan.plan import SUMMARIES, Blocking, Span
from smelt.engine.run.non_finite import refuse_inputs, refuse_result, refuse_statistic
from smelt.engine.run.pipeline import PipelineRunner
from smelt.errors import NumericalError
from smelt.formats import dtype as dtypes
from smelt.ops.block import Block

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Item
    from smelt.engine.run.backend import Advance, Write
    from smelt.ops.fold import Fold

__all__ = ["EagerBackend"]


class EagerBackend:
    """One run's work on blocks. Shared by all threads."""

    def __init__(self, seed: int, device: str, write: Write, advance: Advance):
        self._device = _with_index(torch.device(device))
        self.blocking = Blocking.for_device(self._device.type)
        self._pipeline = PipelineRunner(seed, self._device)
        self._write, self._advance = write, advance
        self._local = threading.local()
        self._threads = torch.get_num_threads()
        if self._device.type == "cuda":
            torch.linalg.eigh(torch.eye(2, device=self._device))  # torch loads its solvers once, and not thread-safely

    def close(self) -> None:
        torch.set_num_threads(self._threads)

    def is_small(self, item: Item) -> bool:
        return False

    def merge_small(self, items: Sequence[Item], folds: Sequence[Mapping[int, Fold]]) -> memoryview:
        raise NotImplementedError("no item is small")

    def spans(self, item: Item) -> list[Span]:
        return self.blocking.spans(item)

    def can_sample(self, item: Item) -> bool:
        return False

    def fold_span(
        self, item: Item, index: int, fold: Fold, folds: Mapping[int, Fold], span: Span, shows_progress: bool
    ) -> Any:
        self._begin_thread()
        total: Any = None
        for start, stop in span.blocks():
            block = self._load(item, start, stop)
            part = fold.look(self._pipeline.before(item, index, block, folds))
            total = part if total is None else fold.join(total, part)
            if shows_progress:
                self._advance(item.bytes_of(stop - start))
        return total

    def merge_span(self, item: Item, folds: Mapping[int, Fold], span: Span) -> None:
        self._begin_thread()
        for start, stop in span.blocks():
            block = self._load(item, start, stop)
            merged = self._pipeline.merge(item, block, folds).reshape(-1)
            out = self._buffer("out", stop - start, dtypes.torch_dtype(item.info.dtype))
            out.copy_(merged)
            if not math.isfinite(float(out.sum(dtype=torch.float32))):
                refuse_result(item, out.float().numpy(), start)
            self._write(item, start, bytes_of(out))
            self._advance(item.bytes_of(stop - start))

    def copy_span(self, item: Item, span: Span) -> None:
        tap = item.copied_from
        for start, stop in span.blocks():
            out = self._buffer("copy", stop - start, dtypes.torch_dtype(item.info.dtype))
            tap.source.read(tap.key, start, out)
            if item.info.dtype != tap.source.tensors[tap.key].dtype:
                self._check_copy(item, start, out)
            self._write(item, start, bytes_of(out))
            self._advance(item.bytes_of(stop - start))

    def _begin_thread(self) -> None:
        """One core, or one stream of the GPU, per thread: blocks run side by side, none is split between threads."""
        if getattr(self._local, "begun", False):
            return
        self._local.begun = True
        torch.set_num_threads(1)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
            torch.cuda.set_stream(torch.cuda.Stream(self._device))  # type: ignore[no-untyped-call]

    def _check_copy(self, item: Item, start: int, out: Tensor) -> None:
        """A copy in a smaller format must not turn a large number into infinity."""
        if math.isfinite(float(out.sum(dtype=torch.float32))):
            return
        before = torch.empty(out.numel())
        item.copied_from.source.read(item.copied_from.key, start, before)
        bad = (torch.isfinite(before) & ~torch.isfinite(out)).nonzero()
        if len(bad):
            raise NumericalError(
                f"{item.key!r} holds {float(before[int(bad[0])])} at element {start + int(bad[0]):,}, "
                f"which {item.info.dtype} cannot hold; choose another dtype"
            )

    def _load(self, item: Item, start: int, stop: int) -> Block:
        values = self._read_there(item, start, stop) if self._device.type == "cuda" else self._read(item, start, stop)
        if not math.isfinite(float(values.sum())):
            refuse_inputs(item, values.cpu().numpy(), start)
        place = item.place(start, stop)
        shape = item.block_shape(place)
        base = values[-1].view(shape) if item.base is not None else None
        statistics = self._load_statistics(item, start, stop, shape) if item.statistics else None
        return Block(values[: len(item.taps)].view(-1, *shape), base, place, statistics=statistics)

    def _read(self, item: Item, start: int, stop: int) -> Tensor:
        """All taps as rows of float32: [models (and the base last), elements]."""
        buffer = self._buffer("in", len(item.all_taps) * (stop - start), torch.float32).view(-1, stop - start)
        for row, tap in zip(buffer, item.all_taps, strict=True):
            tap.source.read(tap.key, start, row)
        return buffer

    def _read_there(self, item: Item, start: int, stop: int) -> Tensor:
        """The same on a GPU. What is stored in fewer bits goes over the link as it is, and becomes float32 there."""
        torch.cuda.current_stream().synchronize()  # the last block's copies must have left the buffers
        rows = []
        for number, tap in enumerate(item.all_taps):
            resident = tap.source.on_device(tap.key)
            if resident is not None:
                rows.append(resident[start:stop].to(self._device, torch.float32))
                continue
            holds = tap.source.has_bytes(tap.key)
            dtype = dtypes.torch_dtype(tap.source.tensors[tap.key].dtype) if holds else torch.float32
            buffer = self._buffer(f"in {number}", stop - start, dtype)
            tap.source.read(tap.key, start, buffer)
            rows.append(buffer.to(self._device, non_blocking=True).to(torch.float32))
        return torch.stack(rows)

    def _load_statistics(self, item: Item, start: int, stop: int, shape: tuple[int, ...]) -> Tensor:
        """The block's part of statistics that have the tensor's shape; of others, which go with whole matrices, all in
        float64: what is solved with them multiplies their rounding.
        """
        info = item.statistics[0].source.tensors[item.statistics[0].key]
        aligned = item.statistics_kind not in SUMMARIES
        count, dtype = (stop - start, torch.float32) if aligned else (info.count, torch.float64)
        start = start if aligned else 0
        buffer = self._buffer("in statistics", len(item.statistics) * count, dtype).view(-1, count)
        for row, tap in zip(buffer, item.statistics, strict=True):
            tap.source.read(tap.key, start, row)
            if not math.isfinite(float(row.sum())):
                refuse_statistic(tap, row.numpy(), start)
        return buffer.to(self._device, non_blocking=True).view(-1, *(shape if aligned else info.shape))

    def _buffer(self, name: str, count: int, dtype: torch.dtype) -> Tensor:
        """A thread's own buffer, re-used from block to block: a fresh page costs more than the arithmetic on it."""
        name = f"{name} {dtype}"
        buffer: Tensor | None = getattr(self._local, name, None)
        if buffer is None or buffer.numel() < count:
            pinned = self._device.type == "cuda" and name.startswith("in")
            buffer = torch.empty(count, dtype=dtype, pin_memory=pinned)
            setattr(self._local, name, buffer)
        return buffer[:count]


def bytes_of(values: Tensor) -> memoryview:
    """The memory of a flat tensor."""
    return values.view(torch.uint8).numpy().data


def _with_index(device: torch.device) -> torch.device:
    """`cuda` means the GPU that is current in the thread that asked."""
    return torch.device("cuda", torch.cuda.current_device()) if str(device) == "cuda" else device
