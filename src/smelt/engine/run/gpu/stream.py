"""Starting work on a device, one thread at a time, and the memory on both sides of the link that a block needs for it.

Every torch operation lets go of the interpreter's lock, so threads that start kernels side by side wait for each other
at each of them. A thread that has read its block takes the launcher, starts copies and kernels, and leaves before they
have run.

A buffer has a stream of its own: its copies and its work follow each other there, beside those of other buffers.
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
"""Parts of a buffer begin at multiples of so many bytes."""
_LEAST = 1 << 20


class BlockBuffer:
    """Memory for one block, on the host and on the device. On a CPU both are one."""

    def __init__(self, device: torch.device):
        self._device, self.is_remote = device, device.type == "cuda"
        if self.is_remote:
            torch.cuda.set_device(device)  # of this thread, for the event and the stream
            self.stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._host_memory = self._device_memory = torch.empty(0, dtype=torch.uint8)
        self._parts: list[tuple[int, torch.dtype]] = []
        self.on_device: list[Tensor] = []
        """What was laid out, on the device."""
        self.on_host: list[memoryview] = []
        """The same on the host."""
        self.ends: list[int] = []
        """Where each part ends, in bytes."""
        self.watched = torch.zeros((), pin_memory=self.is_remote)
        self._given: Tensor | None = None
        self.done: Any = torch.cuda.Event(blocking=True) if self.is_remote else None  # type: ignore[no-untyped-call]

    def allocate(self, parts: list[tuple[int, torch.dtype]]) -> None:
        """Make space for so many numbers of such formats, one after the other. What was there is forgotten."""
        if parts == self._parts:
            return
        self._parts, self.ends, end = parts, [], 0
        for count, dtype in parts:
            end += -(-count * dtype.itemsize // _APART) * _APART
            self.ends.append(end)
        if len(self._host_memory) < end:
            self._host_memory = torch.empty(max(end, _LEAST), dtype=torch.uint8, pin_memory=self.is_remote)
            self._device_memory = (
                torch.empty_like(self._host_memory, device=self._device) if self.is_remote else self._host_memory
            )
        starts, host = [0, *self.ends[:-1]], self._host_memory.numpy().data
        sizes = [(at, at + count * dtype.itemsize) for at, (count, dtype) in zip(starts, parts, strict=True)]
        self.on_host = [host[at:stop] for at, stop in sizes]
        self.on_device = [
            self._device_memory[at:stop].view(dtype) for (at, stop), (_, dtype) in zip(sizes, parts, strict=True)
        ]

    def memory_of(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """The memory of some parts and all between them, on the device and on the host."""
        start, stop = self.ends[first - 1] if first else 0, self.ends[last]
        return self._device_memory[start:stop], self._host_memory[start:stop]

    def copy_to_device(self, which: Sequence[int]) -> None:
        """Start the copies of these parts to the device. What is started next waits for them."""
        if not self.is_remote:
            return
        for first, last in _runs(which):
            on_device, on_host = self.memory_of(first, last)
            on_device.copy_(on_host, non_blocking=True)

    def copy_back(self, watched: Tensor, last: bool = False) -> None:
        """Start the copies back: of the number that watches, and of the last part."""
        self._given = watched  # kept until it was copied
        if last and self.is_remote:
            on_device, on_host = self.memory_of(len(self.ends) - 1, len(self.ends) - 1)
            on_host.copy_(on_device, non_blocking=True)
        self.watched.copy_(watched.view(()), non_blocking=self.is_remote)
        if self.is_remote:
            self.done.record()

    def is_finite(self) -> bool:
        """Waits until all that was started for this buffer is done; whether its numbers are finite."""
        if self.is_remote:
            self.done.synchronize()
        self._given = None
        return math.isfinite(float(self.watched))


class Launcher:
    """Where one thread at a time starts work, on the stream of its buffer."""

    def __init__(self, device: torch.device):
        self._lock = threading.Lock()
        if device.type == "cuda":
            torch.cuda.synchronize(device)  # models that lie there may still be in the making

    @contextmanager
    def on_stream_of(self, buffer: BlockBuffer) -> Iterator[None]:
        with self._lock:
            if not buffer.is_remote:
                yield
                return
            with torch.cuda.stream(buffer.stream):
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
