"""The fused way on a GPU: stored bytes go over the link as they are, and come back merged and rounded.

Each thread has a stream, and on both sides of the link room for one block. While one thread waits for the GPU, others
read and write: the buffers of all threads together are what double buffers would be. The memory of the host's side is
pinned. On the device there is never more than a block of each thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smelt.engine import dtype as dtypes
from smelt.engine.blocks import Span
from smelt.engine.refuse import refuse_inputs, refuse_result
from smelt.fused.takes import Takes, held, stored
from smelt.fused.tensors import TensorRun
from smelt.fused.way import Fused

if TYPE_CHECKING:
    from smelt.engine.plan import Item, Tap
    from smelt.engine.ways import Advance, Write
    from smelt.ops.fold import Fold

__all__ = ["OnDevice", "on_device"]

_BLOCK = 1 << 24
"""Bytes that are read at once from all models together: a third of a millisecond on the link, more than the launches
of a merge take."""
_BLOCKS_OF_A_SPAN = 4
_WORTH_COMPILING = 1 << 40
"""Bytes that a plan must read before torch.compile earns the seconds that it takes."""


def on_device(seed: int, device: str, write: Write, advance: Advance, work: int) -> OnDevice | None:
    """The way of a device for a plan that reads `work` bytes; SMELT_FUSED=0 runs without it."""
    if os.environ.get("SMELT_FUSED") == "0":
        return None
    asked = os.environ.get("SMELT_COMPILE")
    compiles = work >= _WORTH_COMPILING if asked is None else asked == "1"
    return OnDevice(seed, torch.device(device), write, advance, compiles)


class OnDevice(Fused):
    """One run's work on spans. Shared by all threads."""

    def __init__(self, seed: int, device: torch.device, write: Write, advance: Advance, compiles: bool = False):
        super().__init__(seed, write, advance)
        if str(device) == "cuda":  # the GPU that is current in the thread that asked
            device = torch.device("cuda", torch.cuda.current_device())
        self._device, self._compiles = device, compiles
        self._takes = Takes(self._reaches)
        if device.type == "cuda":  # models that lie there may still be in the making, on a stream of their own
            torch.cuda.synchronize(device)
        self._rooms = threading.local()
        self._threads = torch.get_num_threads()

    def close(self) -> None:
        torch.set_num_threads(self._threads)

    def takes(self, item: Item) -> bool:
        return super().takes(item) and (item.copied or item.unit == "element")

    def _reaches(self, tap: Tap) -> bool:
        there = tap.source.there(tap.key)
        return held(tap) if there is None else there.device == self._device

    def spans(self, item: Item) -> list[Span]:
        count = item.info.count
        size = sum(dtypes.item_size(stored(tap)) for tap in item.all_taps)
        step = 1 << ((_BLOCK // max(1, size)).bit_length() - 1)
        wide = step * _BLOCKS_OF_A_SPAN
        return [Span(start, min(start + wide, count), step) for start in range(0, count, wide)]

    def look(self, item: Item, index: int, fold: Fold, folds: Mapping[int, Fold], span: Span, watched: bool) -> Any:
        room = self._room()
        with room:
            program, part = self._looking(item, index, fold, folds, span)
            run = TensorRun(program, self._device, self._compiles)
            for start, stop in span.blocks():
                taps = self._sent(room, item, start, stop)
                if not room.is_finite(run.feed(taps)):
                    self._refuse(item, taps, None, start)
            run.finish()
        if watched:
            self._advance(item.bytes_in * (span.stop - span.start) // item.info.count)
        return part(run)

    def merge(self, item: Item, folds: Mapping[int, Fold], span: Span) -> None:
        room = self._room()
        dtype = dtypes.torch_dtype(item.info.dtype)
        with room:
            run = TensorRun(self._merging(item, folds, span), self._device, self._compiles)
            for start, stop in span.blocks():
                taps = self._sent(room, item, start, stop)
                out, back = room.both("out", stop - start, dtype)
                watched = run.feed(taps, out)
                if back is not out:
                    back.copy_(out, non_blocking=True)
                if not room.is_finite(watched):
                    self._refuse(item, taps, back, start)
                self._write(item, start, back.view(torch.uint8).numpy().data)
                self._advance(item.bytes_in * (stop - start) // item.info.count)

    def _sent(self, room: _Room, item: Item, start: int, stop: int) -> list[Tensor]:
        """A block of each model on the device, in its stored format. The last block has left the buffers."""
        sent = []
        for number, tap in enumerate(item.all_taps):
            resident = tap.source.there(tap.key)
            if resident is not None:
                sent.append(resident[start:stop])
                continue
            there, here = room.both(f"in {number}", stop - start, dtypes.torch_dtype(stored(tap)))
            tap.source.read_bytes(tap.key, start, here.view(torch.uint8).numpy().data)
            if here is not there:
                there.copy_(here, non_blocking=True)
            sent.append(there)
        return sent

    @staticmethod
    def _refuse(item: Item, taps: Sequence[Tensor], out: Tensor | None, start: int) -> None:
        """Name the number that is not finite. There may be none: large ones can overflow the sum that watches."""
        refuse_inputs(item, [one.float().cpu().numpy() for one in taps], start)
        if out is not None:
            refuse_result(item, out.float().numpy(), start)

    def _room(self) -> _Room:
        room: _Room | None = getattr(self._rooms, "room", None)
        if room is None:
            room = self._rooms.room = _Room(self._device)
        return room


class _Room:
    """A thread's stream and buffers. Entered while the thread works on a span."""

    def __init__(self, device: torch.device):
        self._device = device
        self._buffers: dict[str, tuple[Tensor, Tensor]] = {}
        self._stream: Any = None
        if device.type == "cuda":
            torch.cuda.set_device(device)
            self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        torch.set_num_threads(1)

    def __enter__(self) -> None:
        self._context = torch.cuda.stream(self._stream)
        self._context.__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: object) -> None:
        if self._stream is not None:
            self._stream.synchronize()
        self._context.__exit__(*error)

    def both(self, name: str, count: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Room for so many numbers on the device and on the host, which is one and the same on a CPU."""
        size = count * dtype.itemsize
        if name not in self._buffers or self._buffers[name][0].numel() < size:
            far = self._device.type == "cuda"
            here = torch.empty(1 << (size - 1).bit_length(), dtype=torch.uint8, pin_memory=far)
            self._buffers[name] = (torch.empty_like(here, device=self._device) if far else here, here)
        there, here = (one[:size].view(dtype) for one in self._buffers[name])
        return (there, here) if self._buffers[name][0] is not self._buffers[name][1] else (here, here)

    def is_finite(self, watched: Tensor) -> bool:
        """Waits for all that the stream was given, copies included."""
        return bool(torch.isfinite(watched.sum()))
