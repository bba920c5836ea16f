"""The fused way on a GPU: stored bytes go over the link as they are, and come back merged and rounded.

Each thread has room for one block on both sides of the link, pinned on the host's. While one thread waits for the GPU,
others read and write: the rooms of all threads together are what double buffers would be. Work is started by one
thread at a time (`lane.py`). On the device there is never more than a block of each thread, and the registers of one.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from smelt.engine import dtype as dtypes
from smelt.engine.blocks import Span
from smelt.engine.refuse import refuse_inputs, refuse_result
from smelt.fused.lane import Lane, Room
from smelt.fused.takes import Takes, held, stored
from smelt.fused.tensors import TensorRun
from smelt.fused.way import Fused

if TYPE_CHECKING:
    from smelt.engine.plan import Item, Tap
    from smelt.engine.ways import Advance, Write
    from smelt.ops.fold import Fold

__all__ = ["OnDevice", "on_device"]

_BLOCK = 1 << 25
"""Bytes of a block of all models and of the result: half a millisecond on the link, more than it takes to start it."""
_STEP = 1 << 10
"""Blocks of larger tensors have multiples of so many elements."""
_BLOCKS_OF_A_SPAN = 4
_TURN = 2e-4
"""Seconds for which a thread may keep the interpreter while others wait: those that come back from reading wait for the
one that starts kernels, and the usual 5 ms are as long as reading a block takes."""
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
        self._lane, self._rooms = Lane(device), threading.local()
        self._threads, self._turn = torch.get_num_threads(), sys.getswitchinterval()
        sys.setswitchinterval(min(self._turn, _TURN))

    def close(self) -> None:
        sys.setswitchinterval(self._turn)
        torch.set_num_threads(self._threads)

    def takes(self, item: Item) -> bool:
        return super().takes(item) and (item.copied or item.unit == "element")

    def _reaches(self, tap: Tap) -> bool:
        there = tap.source.there(tap.key)
        return held(tap) if there is None else there.device == self._device

    def spans(self, item: Item) -> list[Span]:
        count = item.info.count
        size = sum(dtypes.item_size(stored(tap)) for tap in item.all_taps) + dtypes.item_size(item.info.dtype)
        step = max(1, _BLOCK // size // _STEP) * _STEP
        wide = step * _BLOCKS_OF_A_SPAN
        return [Span(start, min(start + wide, count), step) for start in range(0, count, wide)]

    def look(self, item: Item, index: int, fold: Fold, folds: Mapping[int, Fold], span: Span, watched: bool) -> Any:
        room = self._room()
        program, part = self._looking(item, index, fold, folds, span)
        run = TensorRun(program, self._device, self._compiles)
        for start, stop in span.blocks():
            room.lay([(stop - start, dtypes.torch_dtype(stored(tap))) for tap in item.all_taps])
            self._fill(item, start, room)
            with self._lane:
                taps = self._there(item, start, stop, room)
                self._lane.give_back(room, run.feed(taps))
            if not room.is_finite():
                self._refuse(item, taps, None, start)
        run.finish()  # its numbers are there: the room has waited for them
        if watched:
            self._advance(item.bytes_in * (span.stop - span.start) // item.info.count)
        return part(run)

    def merge(self, item: Item, folds: Mapping[int, Fold], span: Span) -> None:
        room, code = self._room(), item.info.dtype
        run = TensorRun(self._merging(item, folds, span), self._device, self._compiles)
        for start, stop in span.blocks():
            formats = [*(stored(tap) for tap in item.all_taps), code]
            room.lay([(stop - start, dtypes.torch_dtype(one)) for one in formats])
            self._fill(item, start, room)
            with self._lane:
                taps = self._there(item, start, stop, room)
                self._lane.give_back(room, run.feed(taps, room.there[-1]), last=True)
            if not room.is_finite():
                self._refuse(item, taps, room.there[-1], start)
            self._write(item, start, room.bytes[-1])
            self._advance(item.bytes_in * (stop - start) // item.info.count)

    @staticmethod
    def _fill(item: Item, start: int, room: Room) -> None:
        """A block of each model into the host's memory, in its stored format, unless it lies on the device."""
        for part, tap in zip(room.bytes, item.all_taps, strict=False):
            if tap.source.there(tap.key) is None:
                tap.source.read_bytes(tap.key, start, part)

    def _there(self, item: Item, start: int, stop: int, room: Room) -> list[Tensor]:
        """The same on the device."""
        taps = []
        for number, tap in enumerate(item.all_taps):
            resident = tap.source.there(tap.key)
            taps.append(room.there[number] if resident is None else resident[start:stop])
        self._lane.send(room, [n for n, tap in enumerate(item.all_taps) if taps[n] is room.there[n]])
        return taps

    @staticmethod
    def _refuse(item: Item, taps: Sequence[Tensor], out: Tensor | None, start: int) -> None:
        """Name the number that is not finite. There may be none: large ones can overflow the sum that watches."""
        refuse_inputs(item, [one.float().cpu().numpy() for one in taps], start)
        if out is not None:
            refuse_result(item, out.float().cpu().numpy(), start)

    def _room(self) -> Room:
        room: Room | None = getattr(self._rooms, "room", None)
        if room is None:
            torch.set_num_threads(1)
            room = self._rooms.room = Room(self._device)
        return room
