"""A wanted rank found in one pass: a sample says between which two magnitudes it lies, the pass proves it.

The pass counts what lies above the bracket and what equals its two ends, and holds the few magnitudes between them.
Where the rank is not among these, the sample has misled, and `Largest` finds it with its histograms instead: the
result is the same. The ends are magnitudes of the sample, so one that very many entries have is an end, and only
counted: half-precision models are full of such.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["EVERYTHING", "Bracket", "BracketCounts", "RankFound", "bracket", "find_rank", "sample_share"]

Bits: TypeAlias = npt.NDArray[np.uint32]
"""Magnitudes, as the bits of float32, which sort like them."""
Where: TypeAlias = tuple[int, int]
Bracket: TypeAlias = tuple[int, int]
"""Its two ends, as bits."""

EVERYTHING: Bracket = (0, 0x7F800000)
"""From zero to infinity."""
_SAMPLE, _LARGEST_SAMPLE, _SHARE = 1 << 15, 1 << 22, 128
_COUNTED, _HELD = 1 << 31, 1 << 25
_SPREAD = 5.0
"""Half the width of a bracket in standard deviations of a sample whose entries are independent, which those of a row
are not quite."""


def sample_share(count: int, models: int = 1) -> float | None:
    """Which share of so many entries makes a good sample; 1 where all can be held, None where a bracket could not be.

    With n/128 entries in the sample, a bracket around the median holds 57 times the root of n. Of all models together
    no more than 2**25 entries are held, of the sample as of the brackets.
    """
    sample = min(max(count / _SHARE, _SAMPLE), _LARGEST_SAMPLE, count)
    inside = _SPREAD * count / math.sqrt(max(1, sample))
    if count > _COUNTED or models * max(sample, min(inside, count)) > _HELD:
        return None
    return sample / max(1, count)


@dataclass
class BracketCounts:
    """What a pass finds of one bracket."""

    above: int = 0
    tiny: int = 0
    """How many are as good as zero."""
    top: list[tuple[Where, int]] = field(default_factory=list)
    """How many equal the upper end, place by place."""
    inside: list[tuple[Where, Bits]] = field(default_factory=list)
    bottom: list[tuple[Where, int]] = field(default_factory=list)

    def add(self, other: BracketCounts) -> BracketCounts:
        self.above += other.above
        self.tiny += other.tiny
        self.top += other.top
        self.inside += other.inside
        self.bottom += other.bottom
        return self

    def magnitudes(self) -> Bits:
        """Those that were held, in no order; of a pass with EVERYTHING all but zeros."""
        return self.inside[0][1] if len(self.inside) == 1 else np.concatenate([bits for _, bits in self.inside])

    @property
    def at_bottom(self) -> int:
        return sum(count for _, count in self.bottom)


def bracket(sample: BracketCounts, rank: float) -> Bracket:
    """Around the rank-th largest entry of the sample (a pass with EVERYTHING)."""
    bits, zeros = sample.magnitudes(), sample.at_bottom
    count = len(bits) + zeros
    spread = _SPREAD * math.sqrt(max(0.0, rank * (1 - rank / max(1, count)))) + _SPREAD
    first, last = math.floor(rank - spread), math.ceil(rank + spread)
    high, low = _nth_largest(bits, [max(1, first), min(last, count)])
    return low if last <= count else 0, high if first >= 1 else EVERYTHING[1]


def _nth_largest(bits: Bits, ranks: list[int]) -> list[int]:
    """Zeros are not among the bits, and are what comes after them."""
    places = [len(bits) - rank for rank in ranks]
    inside = [place for place in places if place >= 0]
    # Named twice: for a single place numpy has another way, ten times slower where many magnitudes are equal.
    ordered = np.partition(bits, [*inside, inside[-1]]) if inside else bits
    return [int(ordered[place]) if place >= 0 else 0 for place in places]


@dataclass(frozen=True)
class RankFound:
    """The magnitude at a rank, how many entries have it, place by place, and how many of them the rank leaves."""

    value: int
    spare: int
    places: list[tuple[Where, int]]


def find_rank(around: BracketCounts, ends: Bracket, rank: int) -> RankFound | None:
    """The rank-th largest entry, if it is in the bracket."""
    low, high = ends
    left = rank - around.above
    if left < 1:
        return None
    at_top = sum(count for _, count in around.top)
    if left <= at_top:
        return RankFound(high, left, around.top)
    left -= at_top
    bits = around.magnitudes()
    if left <= len(bits):
        (value,) = _nth_largest(bits, [left])
        left -= int(np.count_nonzero(bits > value))
        return RankFound(value, left, [(where, int(np.count_nonzero(one == value))) for where, one in around.inside])
    left -= len(bits)
    return RankFound(low, left, around.bottom) if left <= around.at_bottom else None
