"""A wanted rank found in one pass: a sample says between which two magnitudes it lies, the pass proves it.

The pass counts what lies above the bracket and what equals its two ends, and holds the few magnitudes between them.
Where the rank is not among these, the sample has misled, and `Largest` finds it with its histograms instead: the
result is the same. The ends are magnitudes of the sample, so one that very many entries have is an end, and only
counted: half-precision models are full of such.

Of very large models even the few are too many for a limit of memory. A bracket is narrow, so there are not many
magnitudes that float32 has between its ends (below 100,000 for a sample of four million): it is then counted how many
entries have each of them, and they need not be held. What is lost is where they lie. Where only some of equal entries
may stay, one more pass counts them place by place.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = [
    "EVERYTHING",
    "Bracket",
    "BracketCounts",
    "RankFound",
    "SamplePlan",
    "add_counts",
    "bracket",
    "find_rank",
    "plan_sample",
]

Bits: TypeAlias = npt.NDArray[np.uint32]
"""Magnitudes, as the bits of float32, which sort like them."""
Where: TypeAlias = tuple[int, int]
Bracket: TypeAlias = tuple[int, int]
"""Its two ends, as bits."""

EVERYTHING: Bracket = (0, 0x7F800000)
"""From zero to infinity."""
_SAMPLE, _LARGEST_SAMPLE, _SHARE = 1 << 15, 1 << 22, 128
_ROOM = 192 << 20
"""Bytes that may be held where nobody says how many."""
_BUFFERED = 1 << 20
"""Entries of a bracket that are held before they are counted, where all cannot be held."""
_MAGNITUDES = 1 << 25
"""Those of float32 that an equal share of the entries has, about: a normal distribution has 2**24 to 2**25 for every
three sevenths of its mass, at its median."""
_SPREAD = 5.0
"""Half the width of a bracket in standard deviations of a sample whose entries are independent, which those of a row
are not quite."""
_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class SamplePlan:
    """How ranks are looked for by a sample."""

    share: float
    """Which share of the entries the sample has; 1 where all can be held."""
    held: int
    """Entries that each bracket may hold."""
    counted: int
    """Magnitudes that it may count instead."""
    bytes: int
    """What is held at once, at most."""


def plan_sample(count: int, rows: int = 1, brackets: int = 1, room: int | None = None) -> SamplePlan | None:
    """How `brackets` ranks of `rows` with so many entries each are found within `room` bytes; None without a sample.

    With n/128 entries in the sample, a bracket around the median holds 57 times the root of n. One more row or bracket
    is counted than there are: what it holds is put together in one array.
    """
    room = _ROOM if room is None else room
    sample = min(max(count / _SHARE, _SAMPLE), _LARGEST_SAMPLE, count, room / (4 * (rows + 1)))
    if sample < min(count, _SAMPLE):
        return None
    sampled, each = math.ceil(4 * (rows + 1) * sample), room // (brackets + 1)
    if sample == count:
        return SamplePlan(1.0, 0, 0, sampled)
    share = _SPREAD * (1 / math.sqrt(sample) + 2 / sample)
    inside, magnitudes = math.ceil(count * min(1.0, share)), math.ceil(_MAGNITUDES * share)
    held = each // 8
    if inside > held:
        held = min(held, _BUFFERED)
    counted = (each - 4 * held) // 8
    if inside <= held:
        most = 4 * inside
    elif magnitudes <= counted:
        most = 4 * held + 8 * magnitudes
    else:
        return None
    return SamplePlan(sample / count, held, counted, max(sampled, (brackets + 1) * most))


def add_counts(counts: npt.NDArray[np.int64], numbers: npt.NDArray[Any]) -> None:
    """Add one to the count of each number, some at a time: numpy makes eight bytes of each."""
    for start in range(0, len(numbers), _AT_ONCE):
        np.add.at(counts, numbers[start : start + _AT_ONCE].astype(np.intp), 1)


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
    counts: npt.NDArray[np.int64] | None = None
    """How many entries have each magnitude inside, where they were too many to hold; what is held comes on top."""
    is_lost: bool = False
    """Whether they were too many to hold, and their magnitudes too many to count."""
    held: int = field(init=False)
    """Entries that are held."""

    def __post_init__(self) -> None:
        self.held = sum(len(bits) for _, bits in self.inside)

    def add(self, other: BracketCounts) -> BracketCounts:
        self.above += other.above
        self.tiny += other.tiny
        self.top += other.top
        self.inside += other.inside
        self.bottom += other.bottom
        self.held += other.held
        self.is_lost = self.is_lost or other.is_lost
        if self.counts is None:
            self.counts = other.counts
        elif other.counts is not None:
            self.counts += other.counts
        return self

    def count_held(self, ends: Bracket, most: int) -> None:
        """Hold nothing any more of what is inside: count it, if there are no more than `most` magnitudes."""
        low, high = ends
        between = max(0, high - low - 1)
        if self.counts is None and between > most:
            self.is_lost = True
        elif not self.is_lost:
            self.counts = np.zeros(between, np.int64) if self.counts is None else self.counts
            for _, bits in self.inside:
                add_counts(self.counts, bits - np.uint32(low + 1))
        self.inside, self.held = [], 0

    def magnitudes(self) -> Bits:
        """Those that were held, in no order; of a pass with EVERYTHING all but zeros."""
        return self.inside[0][1] if len(self.inside) == 1 else np.concatenate([bits for _, bits in self.inside])

    def forget_places(self) -> None:
        """Hold what is inside as one array."""
        if len(self.inside) > 1:
            self.inside = [(self.inside[0][0], self.magnitudes())]

    def release(self) -> None:
        """Hold nothing: what was asked of it is known."""
        self.inside, self.held, self.counts = [], 0, None

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
    """Zeros are not among the bits, and are what comes after them. The bits get another order: a copy takes memory."""
    places = [len(bits) - rank for rank in ranks]
    inside = [place for place in places if place >= 0]
    if inside:
        # Named twice: for a single place numpy has another way, ten times slower where many magnitudes are equal.
        bits.partition([*inside, inside[-1]])
    return [int(bits[place]) if place >= 0 else 0 for place in places]


@dataclass(frozen=True)
class RankFound:
    """The magnitude at a rank, how many entries have it, and how many of them the rank leaves."""

    value: int
    spare: int
    equal: int
    places: list[tuple[Where, int]] | None
    """How many have it in each place, where that is known."""

    @classmethod
    def of(cls, value: int, spare: int, places: list[tuple[Where, int]]) -> RankFound:
        return cls(value, spare, sum(count for _, count in places), places)


def find_rank(around: BracketCounts, ends: Bracket, rank: int) -> RankFound | None:
    """The rank-th largest entry, if it is in the bracket."""
    low, high = ends
    left = rank - around.above
    if left < 1:
        return None
    at_top = sum(count for _, count in around.top)
    if left <= at_top:
        return RankFound.of(high, left, around.top)
    left -= at_top
    if around.is_lost:
        return None
    found = _held_rank(around, left) if around.counts is None else _counted_rank(around, ends, left)
    if isinstance(found, RankFound):
        return found
    left -= found
    return RankFound.of(low, left, around.bottom) if left <= around.at_bottom else None


def _held_rank(around: BracketCounts, rank: int) -> RankFound | int:
    """The rank-th largest of those inside, or how many they are if they are fewer."""
    bits = around.magnitudes()
    if rank > len(bits):
        return len(bits)
    (value,) = _nth_largest(bits, [rank])
    spare = rank - int(np.count_nonzero(bits > value))
    return RankFound.of(value, spare, [(where, int(np.count_nonzero(one == value))) for where, one in around.inside])


def _counted_rank(around: BracketCounts, ends: Bracket, rank: int) -> RankFound | int:
    """The same where they were counted: nobody knows where they lie."""
    around.count_held(ends, 0)
    assert around.counts is not None
    upto = around.counts[::-1].cumsum()
    if not len(upto) or rank > upto[-1]:
        return int(upto[-1]) if len(upto) else 0
    index = int(np.searchsorted(upto, rank))
    equal = int(around.counts[len(upto) - 1 - index])
    return RankFound(ends[0] + len(upto) - index, rank - int(upto[index]) + equal, equal, None)
