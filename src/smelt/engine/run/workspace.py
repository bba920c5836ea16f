"""Where blocks are worked on in torch: memory that is used again, a device, and on a GPU a stream of its own.

On a CPU each thread has one for itself. The GPUs of a run have a few each, which threads take and give back: a thread
takes one on the GPU that has least to do, and waits where the work would not fit into its memory. So matrices are
dealt out as GPUs become free, the large ones and the small ones, and which GPU worked on one changes no number.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from smelt.engine.run.backends import AT_ONCE

__all__ = ["CoreWorkspaces", "GpuWorkspaces", "Workspace", "free_memory"]

_ROOM = 0.8
"""The share of a GPU's free memory that work is counted into. What an allocator keeps and solvers take is beside it."""


class Workspace:
    """Used by one thread at a time."""

    def __init__(self, device: torch.device):
        self.device, self.is_remote = device, device.type == "cuda"
        if self.is_remote:
            self._stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._buffers: dict[tuple[str, torch.dtype], Tensor] = {}

    @contextmanager
    def entered(self) -> Iterator[None]:
        """What this thread computes within runs there: on one core, or on the stream of the workspace."""
        torch.set_num_threads(1)
        if not self.is_remote:
            yield
            return
        with torch.cuda.device(self.device), torch.cuda.stream(self._stream):
            yield

    def buffer(self, name: str, count: int, dtype: torch.dtype) -> Tensor:
        """Memory of the host, used again from block to block: a fresh page costs more than the arithmetic on it.

        What is read into (`in`) is pinned where it goes over a link.
        """
        known = self._buffers.get((name, dtype))
        if known is None or known.numel() < count:
            pinned = self.is_remote and name.startswith("in")
            known = torch.empty(count, dtype=dtype, pin_memory=pinned)
            self._buffers[name, dtype] = known
        return known[:count]

    def sent(self) -> None:
        """Waits until the last block's copies have left the buffers."""
        if self.is_remote:
            self._stream.synchronize()


class CoreWorkspaces:
    """One for each thread, on the CPU."""

    def __init__(self) -> None:
        self._local = threading.local()

    @contextmanager
    def taken(self, cost: int = 0) -> Iterator[Workspace]:
        workspace: Workspace | None = getattr(self._local, "workspace", None)
        if workspace is None:
            workspace = self._local.workspace = Workspace(torch.device("cpu"))
        with workspace.entered():
            yield workspace


class GpuWorkspaces:
    """A few for each of several devices, which tests may all call `cpu`."""

    def __init__(self, devices: Sequence[torch.device], free: Mapping[int, int] | None = None, at_once: int = AT_ONCE):
        """`free`: bytes that work may take on each device, by its place in the list."""
        self._free = dict.fromkeys(range(len(devices)), 1 << 62) if free is None else dict(free)
        self._devices, self._at_once = list(devices), at_once
        self._idle: list[list[Workspace]] = [[] for _ in devices]
        self._busy = [0] * len(devices)
        self._spent = [0] * len(devices)
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, cost: int = 0) -> Iterator[Workspace]:
        """One on the device with the least work under way that has room for `cost` bytes; waits for it.

        A device that has nothing to do takes anything: what is too large for it is refused by the device itself.
        """
        with self._changed:
            number = self._fitting(cost)
            while number is None:
                self._changed.wait()
                number = self._fitting(cost)
            self._busy[number] += 1
            self._spent[number] += cost
            workspace = self._idle[number].pop() if self._idle[number] else None
        try:
            workspace = workspace or Workspace(self._devices[number])
            with workspace.entered():
                yield workspace
        finally:
            with self._changed:
                self._busy[number] -= 1
                self._spent[number] -= cost
                if workspace is not None:
                    self._idle[number].append(workspace)
                self._changed.notify_all()

    def _fitting(self, cost: int) -> int | None:
        fits = [
            number
            for number in range(len(self._devices))
            if self._busy[number] < self._at_once
            and (not self._busy[number] or self._spent[number] + cost <= self._free[number])
        ]
        return min(fits, key=lambda number: (self._spent[number], self._busy[number], number), default=None)


def free_memory(devices: Sequence[torch.device]) -> dict[int, int]:
    """Bytes that work may take on each of these GPUs, by its place in the list."""
    return {number: int(_ROOM * torch.cuda.mem_get_info(device)[0]) for number, device in enumerate(devices)}
