"""Starting work on a device, one thread at a time, and the memory on both sides of the link that a block needs for it.

Every torch operation lets go of the interpreter's lock, so threads that start kernels side by side wait for each other
at each of them. A thread that has read its block enters the lane, starts copies and kernels, and leaves before they
have run.

A room has a stream of its own: its copies and its work follow each other there, beside those of other rooms.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

__all__ = ["BlockBuffer", "Launcher"]

_APART = 512
"""Parts of a room begin at multiples of so many bytes."""
_LEAST = 1 << 20


class BlockBuffer:
    """Memory for one block: here on the host, there on the device. On a CPU both are one."""

    def __init__(self, device: torch.device):
        self._device, self.far = device, device.type == "cuda"
        if self.far:
            torch.cuda.set_device(device)  # of this thread, for the event and the stream
            self.stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._here = self._there = torch.empty(0, dtype=torch.uint8)
        self._parts: list[tuple[int, torch.dtype]] = []
        self.there: list[Tensor] = []
        """What was laid out, on the device."""
        self.bytes: list[memoryview] = []
        """The same on the host."""
        self.ends: list[int] = []
        """Where each part ends, in bytes."""
        self.watched = torch.zeros((), pin_memory=self.far)
        self._given: Tensor | None = None
        self.done: Any = torch.cuda.Event(blocking=True) if self.far else None  # type: ignore[no-untyped-call]

    def lay(self, parts: list[tuple[int, torch.dtype]]) -> None:
        """Make room for so many numbers of such formats, one after the other. What was there is forgotten."""
        if parts == self._parts:
            return
        self._parts, self.ends, end = parts, [], 0
        for count, dtype in parts:
            end += -(-count * dtype.itemsize // _APART) * _APART
            self.ends.append(end)
        if len(self._here) < end:
            self._here = torch.empty(max(end, _LEAST), dtype=torch.uint8, pin_memory=self.far)
            self._there = torch.empty_like(self._here, device=self._device) if self.far else self._here
        starts, host = [0, *self.ends[:-1]], self._here.numpy().data
        sizes = [(at, at + count * dtype.itemsize) for at, (count, dtype) in zip(starts, parts, strict=True)]
        self.bytes = [host[at:stop] for at, stop in sizes]
        self.there = [self._there[at:stop].view(dtype) for (at, stop), (_, dtype) in zip(sizes, parts, strict=True)]

    def sides(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """The memory of some parts and all between them, on the device and on the host."""
        start, stop = self.ends[first - 1] if first else 0, self.ends[last]
        return self._there[start:stop], self._here[start:stop]

    def send(self, which: Sequence[int]) -> None:
        """Start the copies of these parts to the device. What is started next waits for them."""
        if not self.far:
            return
        for first, last in _runs(which):
            there, here = self.sides(first, last)
            there.copy_(here, non_blocking=True)

    def give_back(self, watched: Tensor, last: bool = False) -> None:
        """Start the copies back: of the number that watches, and of the last part."""
        self._given = watched  # kept until it was copied
        if last and self.far:
            there, here = self.sides(len(self.ends) - 1, len(self.ends) - 1)
            here.copy_(there, non_blocking=True)
        self.watched.copy_(watched.view(()), non_blocking=self.far)
        if self.far:
            self.done.record()

    def is_finite(self) -> bool:
        """Waits until all that was started for this room is done; whether its numbers are finite."""
        if self.far:
            self.done.synchronize()
        self._given = None
        return math.isfinite(float(self.watched))


class Launcher:
    """Where one thread at a time starts work, on the stream of its room."""

    def __init__(self, device: torch.device):
        self._lock = threading.Lock()
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # models that lie there may still be in the making

    @contextmanager
    def of(self, room: BlockBuffer) -> Iterator[None]:
        with self._lock:
            if not room.far:
                yield
                return
            with torch.cuda.stream(room.stream):
                yield


def _runs(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Numbers in their order as runs of neighbours: 0, 1, 2, 5 as (0, 2), (5, 5)."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs
