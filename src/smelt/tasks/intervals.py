"""Intervals: how far a measured mean may be from the true one.

Wilson 1927, for a share: the shares p whose z-test the count does not reject,
    (k + z²/2 ± z √(k(n−k)/n + z²/4)) / (n + z²)
Unlike p ± z √(p(1−p)/n) it stays within [0, 1] and does not shrink to a point at 0 and 100 %.
The bootstrap, for scores between 0 and 1: the percentiles of the mean over examples drawn with replacement. A few
scores that are alike would look certain; there the interval is at least Wilson's, with the sum of scores as k: no
scores between 0 and 1 of that mean spread more than right and wrong.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

__all__ = ["Z95", "bootstrap", "interval_of", "wilson"]

Z95 = 1.959963984540054
"""Standard errors to either side of a mean that hold 95 % of a normal distribution."""
_DRAWS = 1000
_FEW = 20
"""With fewer scores the bootstrap alone is too narrow."""
_AT_ONCE = 1 << 20
"""Numbers drawn at once: eight megabytes of them, however many examples there are."""


def wilson(correct: float, n: int, z: float = Z95) -> tuple[float, float]:
    """The interval of a share of `correct` among `n`; 95 % unless another `z` is given."""
    if not 0 <= correct <= n or n == 0:
        raise ValueError(f"{correct} of {n} is no share")
    middle, spread = correct + z * z / 2, z * math.sqrt(correct * (n - correct) / n + z * z / 4)
    low, high = (middle - spread) / (n + z * z), (middle + spread) / (n + z * z)
    return (0.0 if correct == 0 else low), (1.0 if correct == n else high)


def bootstrap(scores: Sequence[float], draws: int = _DRAWS, seed: int = 0) -> tuple[float, float]:
    """The 95 % interval of the mean of scores; the same scores give the same interval."""
    import numpy as np

    values = np.asarray(scores, dtype=np.float64)
    if not values.size:
        raise ValueError("no scores, no interval")
    draw, step = np.random.default_rng(seed), max(1, _AT_ONCE // values.size)
    means = [
        values[draw.integers(0, values.size, (min(step, draws - done), values.size))].mean(axis=1)
        for done in range(0, draws, step)
    ]
    low, high = np.percentile(np.concatenate(means), [2.5, 97.5])
    return float(low), float(high)


def interval_of(scores: Sequence[float]) -> tuple[float, float]:
    """Wilson's where every example is right or wrong, else the bootstrap's; of few scores the wider of both."""
    if all(score in (0.0, 1.0) for score in scores):
        return wilson(round(sum(scores)), len(scores))
    low, high = bootstrap(scores)
    if len(scores) < _FEW:
        least, most = wilson(math.fsum(scores), len(scores))
        low, high = min(low, least), max(high, most)
    return low, high
