"""Ways to count the upper bits of magnitudes on a device: the pass before TIES, and what limits it.

In: a device. Out: for each way, numbers per second. All give the same counts.
"""

from __future__ import annotations

from typing import Any

import torch

from gpu_links import seconds

BINS = 1 << 16


def histograms(device: torch.device, count: int) -> dict[str, Any]:
    """Numbers per second of each way."""
    draw = torch.Generator(device).manual_seed(0)
    base = torch.randn(count, generator=draw, device=device).mul_(0.02).bfloat16()
    tune = (base + torch.randn(count, generator=draw, device=device) * 0.001).bfloat16()
    bins = (tune.float() - base.float()).abs().view(torch.int32) >> 15
    expected = torch.bincount(bins, minlength=BINS)
    place = torch.arange(count, device=device, dtype=torch.int32)
    ones = torch.ones((), dtype=torch.int32, device=device).expand(count)

    def spread(copies: int) -> Any:
        return lambda: torch.bincount(bins + (place % copies) * BINS, minlength=copies * BINS).view(copies, -1).sum(0)

    def sorted_() -> Any:
        values = bins.to(torch.int16).sort().values.to(torch.int32) & 0xFFFF
        edges = torch.arange(BINS + 1, device=device, dtype=torch.int32)
        return torch.searchsorted(values, edges).diff()

    ways = {
        "bincount": lambda: torch.bincount(bins, minlength=BINS),
        "bincount_8": spread(8),
        "bincount_64": spread(64),
        "bincount_512": spread(512),
        "index_add": lambda: torch.zeros(BINS, dtype=torch.int32, device=device).index_add_(0, bins, ones),
        "histc": lambda: torch.histc(bins.float(), BINS, 0, BINS),
        "sort": sorted_,
    }
    found: dict[str, Any] = {"numbers": count, "distinct": int((expected > 0).sum())}
    for name, work in ways.items():
        try:
            same = bool((work().to(torch.int64) == expected).all())
            found[name] = {"per_s": count / seconds(work, device, 3), "same": same}
        except RuntimeError as error:
            found[name] = {"error": str(error)[:200]}
    return found
