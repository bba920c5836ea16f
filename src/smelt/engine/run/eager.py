"""The eager backend: blocks as float32 tensors, stages as torch functions. Takes every item, on any device.

A thread has one block of every model, and a whole-matrix method one matrix of every model. On GPUs a thread takes a
workspace on one of them for a span; what is factorised is spread over all that the run has.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smelt.engine.plan.plan import SUMMARIES, Blocking, Span
from smelt.engine.run.non_finite import refuse_inputs, refuse_overflow, refuse_result, refuse_statistic
from smelt.engine.run.pipeline import PipelineRunner
from smelt.engine.run.work_memory import eager_thread_memory, is_whole
from smelt.engine.run.workspace import CoreWorkspaces, GpuWorkspaces, Workspace, free_memory
from smelt.formats import dtype as dtypes
from smelt.ops.block import Block

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Item
    from smelt.engine.run.backend import Advance, Write
    from smelt.ops.fold import Fold

__all__ = ["EagerBackend"]


class EagerBackend:
    """One run's work on blocks. Shared by all threads."""

    def __init__(
        self,
        seed: int,
        device: str,
        write: Write,
        advance: Advance,
        spread: Sequence[torch.device] = (),
        *,
        workspaces: GpuWorkspaces | None = None,
    ):
        """`spread`: the devices that whole matrices are dealt out to, where there are several."""
        own = _with_index(torch.device(device))
        remote = own.type == "cuda"
        devices = list(spread) or [own]
        self.blocking = Blocking.for_device(own.type)
        self._pipelines = {one: PipelineRunner(seed, one) for one in {own, *devices}}
        self._write, self._advance = write, advance
        self._threads = torch.get_num_threads()
        self._hosts = CoreWorkspaces()
        for one in devices if remote else ():
            torch.linalg.eigh(torch.eye(2, device=one))  # torch loads its solvers once, and not thread-safely
        if remote and workspaces is None:
            workspaces = GpuWorkspaces(devices, free_memory(devices))
        self._matrices: CoreWorkspaces | GpuWorkspaces = workspaces or self._hosts
        self._elements = GpuWorkspaces([own], free_memory([own])) if remote and len(devices) > 1 else self._matrices

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
        total: Any = None
        with self._taken(item) as here:
            pipeline = self._pipelines[here.device]
            for start, stop in span.blocks():
                block = self._load(item, start, stop, here)
                part = fold.look(pipeline.before(item, index, block, folds))
                total = part if total is None else fold.join(total, part)
                if shows_progress:
                    self._advance(item.bytes_of(stop - start))
        return total

    def merge_span(self, item: Item, folds: Mapping[int, Fold], span: Span) -> None:
        with self._taken(item) as here:
            pipeline = self._pipelines[here.device]
            for start, stop in span.blocks():
                block = self._load(item, start, stop, here)
                merged = pipeline.merge(item, block, folds).reshape(-1)
                out = here.buffer("out", stop - start, dtypes.torch_dtype(item.info.dtype))
                out.copy_(merged)
                if not math.isfinite(float(out.sum(dtype=torch.float32))):
                    refuse_result(item, out.float().numpy(), start)
                self._write(item, start, bytes_of(out))
                self._advance(item.bytes_of(stop - start))

    def copy_span(self, item: Item, span: Span) -> None:
        tap = item.copied_from
        with self._hosts.taken() as here:
            for start, stop in span.blocks():
                out = here.buffer("copy", stop - start, dtypes.torch_dtype(item.info.dtype))
                tap.source.read(tap.key, start, out)
                if item.info.dtype != tap.source.tensors[tap.key].dtype:
                    self._check_copy(item, start, out)
                self._write(item, start, bytes_of(out))
                self._advance(item.bytes_of(stop - start))

    def _taken(self, item: Item) -> AbstractContextManager[Workspace]:
        """One core, or one stream of a GPU, per thread: blocks run side by side, none is split between threads."""
        workspaces = self._matrices if is_whole(item) else self._elements
        return workspaces.taken(eager_thread_memory(item, self.blocking))

    def _check_copy(self, item: Item, start: int, out: Tensor) -> None:
        """A copy in a smaller format must not turn a large number into infinity."""
        if math.isfinite(float(out.sum(dtype=torch.float32))):
            return
        before = torch.empty(out.numel())
        item.copied_from.source.read(item.copied_from.key, start, before)
        refuse_overflow(item, before.numpy(), out.float().numpy(), start)

    def _load(self, item: Item, start: int, stop: int, here: Workspace) -> Block:
        read = self._read_there if here.is_remote else self._read
        values = read(item, start, stop, here)
        if not math.isfinite(float(values.sum())):
            refuse_inputs(item, values.cpu().numpy(), start)
        place = item.place(start, stop)
        shape = item.block_shape(place)
        base = values[-1].view(shape) if item.base is not None else None
        statistics = self._load_statistics(item, start, stop, shape, here) if item.statistics else None
        return Block(values[: len(item.taps)].view(-1, *shape), base, place, statistics=statistics)

    @staticmethod
    def _read(item: Item, start: int, stop: int, here: Workspace) -> Tensor:
        """All taps as rows of float32: [models (and the base last), elements]."""
        buffer = here.buffer("in", len(item.all_taps) * (stop - start), torch.float32).view(-1, stop - start)
        for row, tap in zip(buffer, item.all_taps, strict=True):
            tap.source.read(tap.key, start, row)
        return buffer

    @staticmethod
    def _read_there(item: Item, start: int, stop: int, here: Workspace) -> Tensor:
        """The same on a GPU. What is stored in fewer bits goes over the link as it is, and becomes float32 there."""
        here.sent()
        rows = []
        for number, tap in enumerate(item.all_taps):
            resident = tap.source.on_device(tap.key)
            if resident is not None:
                rows.append(resident[start:stop].to(here.device, torch.float32))
                continue
            holds = tap.source.has_bytes(tap.key)
            dtype = dtypes.torch_dtype(tap.source.tensors[tap.key].dtype) if holds else torch.float32
            buffer = here.buffer(f"in {number}", stop - start, dtype)
            tap.source.read(tap.key, start, buffer)
            rows.append(buffer.to(here.device, non_blocking=True).to(torch.float32))
        return torch.stack(rows)

    @staticmethod
    def _load_statistics(item: Item, start: int, stop: int, shape: tuple[int, ...], here: Workspace) -> Tensor:
        """The block's part of statistics that have the tensor's shape; of others, which go with whole matrices, all in
        float64: what is solved with them multiplies their rounding.
        """
        info = item.statistics[0].source.tensors[item.statistics[0].key]
        aligned = item.statistics_kind not in SUMMARIES
        count, dtype = (stop - start, torch.float32) if aligned else (info.count, torch.float64)
        start = start if aligned else 0
        buffer = here.buffer("in statistics", len(item.statistics) * count, dtype).view(-1, count)
        for row, tap in zip(buffer, item.statistics, strict=True):
            tap.source.read(tap.key, start, row)
            if not math.isfinite(float(row.sum())):
                refuse_statistic(tap, row.numpy(), start)
        return buffer.to(here.device, non_blocking=True).view(-1, *(shape if aligned else info.shape))


def bytes_of(values: Tensor) -> memoryview:
    """The memory of a flat tensor."""
    return values.view(torch.uint8).numpy().data


def _with_index(device: torch.device) -> torch.device:
    """`cuda` means the GPU that is current in the thread that asked."""
    return torch.device("cuda", torch.cuda.current_device()) if str(device) == "cuda" else device
