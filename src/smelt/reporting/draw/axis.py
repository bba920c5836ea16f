"""An axis: where a number lies, and which round numbers are written on it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = [
    "Axis",
    "Ticks",
    "log_ticks",
    "number_ticks",
    "percent_ticks",
    "place_text",
    "round_ticks",
    "span",
    "track_ticks",
]

Ticks = Sequence[tuple[float, str]]
"""Places on an axis with what is written there."""


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


def number_ticks(low: float, high: float, most: int = 5) -> Ticks:
    """Round numbers as they are."""
    return [(tick, f"{tick:g}") for tick in round_ticks(low, high, most)]


def log_ticks(low: float, high: float) -> list[tuple[float, float]]:
    """Every 1, 2 and 5 times a power of ten from low to high: (its place on an axis of log10, the number)."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    numbers = (factor * 10.0**power for power in powers for factor in (1, 2, 5))
    return [(math.log10(number), number) for number in numbers if low <= number <= high]


def percent_ticks(low: float, high: float, most: int = 5) -> Ticks:
    """Round shares, written in percent."""
    return [(tick, f"{100 * tick:g}") for tick in round_ticks(low, high, most)]


def place_text(axis: Axis, value: float) -> str:
    """Where a number lies on a track that is as wide as the page lets it be, in percent of its width."""
    return f"{axis.at(value):.2f}%"


def track_ticks(axis: Axis) -> list[tuple[str, str]]:
    """The same below such a track: (place, text)."""
    return [(place_text(axis, tick), text) for tick, text in percent_ticks(axis.low, axis.high, 6)]


def span(values: Iterable[float], margin: float = 0.06) -> tuple[float, float]:
    """The range of some numbers with a little air; one that is not empty even where all are equal."""
    known = [value for value in values if math.isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    air = (high - low) * margin or max(abs(high) * margin, 0.01)
    return low - air, high + air
