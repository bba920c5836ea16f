"""Intervals: how far a measured share may be from the true one.

Wilson 1927: the shares p whose z-test the count does not reject,
    (k + z²/2 ± z √(k(n−k)/n + z²/4)) / (n + z²)
Unlike p ± z √(p(1−p)/n) it stays within [0, 1] and does not shrink to a point at 0 and 100 %.
"""

from __future__ import annotations

import math

__all__ = ["wilson"]

_Z95 = 1.959963984540054


def wilson(correct: int, n: int, z: float = _Z95) -> tuple[float, float]:
    """The interval of a share of `correct` among `n`; 95 % unless another `z` is given."""
    if not 0 <= correct <= n or n == 0:
        raise ValueError(f"{correct} of {n} is no share")
    middle, spread = correct + z * z / 2, z * math.sqrt(correct * (n - correct) / n + z * z / 4)
    low, high = (middle - spread) / (n + z * z), (middle + spread) / (n + z * z)
    return (0.0 if correct == 0 else low), (1.0 if correct == n else high)
