"""How fast bytes move on a device and over its link: what no merge can beat.

In: a device. Out: bytes per second of a copy on the device (read and written bytes together), and of pinned copies to
and from it. The best of several tries counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch

TRIES = 7


def seconds(work: Callable[[], object], device: torch.device, tries: int = TRIES) -> float:
    """The least time that some work takes, once warm."""
    best = float("inf")
    for number in range(tries + 1):
        wait(device)
        began = time.perf_counter()
        work()
        wait(device)
        if number:
            best = min(best, time.perf_counter() - began)
    return best


def wait(device: torch.device) -> None:
    """Until the device has done everything that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def links(device: torch.device, size: int = 1 << 30) -> dict[str, float]:
    """Bytes per second: `copy` on the device, `to` it and `from` it."""
    a = torch.zeros(size, dtype=torch.uint8, device=device)
    b = torch.empty_like(a)
    copy = 2 * size / seconds(lambda: b.copy_(a), device)
    if device.type != "cuda":
        return {"copy": copy, "to": copy, "from": copy}
    here = torch.zeros(size // 4, dtype=torch.uint8, pin_memory=True)
    to = len(here) / seconds(lambda: a[: len(here)].copy_(here, non_blocking=True), device)
    back = len(here) / seconds(lambda: here.copy_(a[: len(here)], non_blocking=True), device)
    return {"copy": copy, "to": to, "from": back}
