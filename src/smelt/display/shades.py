"""How strongly a number is shaded in a heat map: 0 is pale, and a round number is full."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["full_shade"]

_FULL = (0.25, 0.5, 1.0)


def full_shade(values: Iterable[float]) -> float:
    """The number at which similarities are shaded in full: 0.25, 0.5 or 1, the first that none of them exceeds.

    A scale that ended at the largest of them would paint 0.02 dark among task vectors that share nothing.
    """
    most = max(map(abs, values), default=0.0)
    return next((full for full in _FULL if most <= full), _FULL[-1])
