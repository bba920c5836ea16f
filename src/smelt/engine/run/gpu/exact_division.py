"""Whether x (1/p) with one correction is x / p, rounded, for every x: tried out, since only the digits of x matter.

There are 2^23 of them. What the correction gives is reckoned in float64, which holds every product of two float32
numbers; a sum that might round differently there counts as wrong.
"""

from __future__ import annotations

from functools import cache

import torch

__all__ = ["is_exact"]

_DIGITS, _AT_ONCE = 1 << 23, 1 << 20
_HALFWAY = 1 << 28
"""The bits of a float64 beyond those of a float32 where it lies between two of these."""


@cache
def is_exact(divisor: float, device: torch.device) -> bool:
    """Reckoned where the kernel will run."""
    if not 2.0**-60 < abs(divisor) < 2.0**60:
        return False
    p = torch.tensor(divisor, dtype=torch.float64, device=device)
    inverse = (1 / p).float().double()
    for start in range(0, _DIGITS, _AT_ONCE):
        bits = torch.arange(start, start + _AT_ONCE, dtype=torch.int32, device=device) + 0x3F800000
        x = bits.view(torch.float32).double()
        first = (x * inverse).float().double()
        corrected = first - (first * p - x) * inverse
        between = corrected.view(torch.int64) & (2 * _HALFWAY - 1) == _HALFWAY
        if bool(((corrected.float() != (x / p).float()) | between).any()):
            return False
    return True
