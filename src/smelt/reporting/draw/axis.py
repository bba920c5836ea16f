"""An axis: where a number lies, and which round numbers are written on it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["Axis", "round_ticks", "span"]


@dataclass(frozen=True)
class Axis:
    """Maps low…high to start…end, in the drawing's units or in percent."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def round_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most `most` multiples of 1, 2 or 5 times a power of ten between low and high."""
    step = 10.0 ** math.floor(math.log10((high - low) / most))
    while True:
        for factor in (1, 2, 5):
            first, last = math.ceil(low / (step * factor) - 1e-9), math.floor(high / (step * factor) + 1e-9)
            if last - first < most:
                return [round(number * step * factor, 12) for number in range(first, last + 1)]
        step *= 10


def span(values: Iterable[float], margin: float = 0.06) -> tuple[float, float]:
    """The range of some numbers with a little air; one that is not empty even where all are equal."""
    known = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    air = (high - low) * margin or max(abs(high) * margin, 0.01)
    return low - air, high + air
