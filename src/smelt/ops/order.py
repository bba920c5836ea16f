"""Exact order statistics of a whole tensor or model, without sorting and without holding it.

Non-negative float32 numbers sort like their bit patterns, so the k-th largest is found by two
histograms: one pass over the upper 16 bits picks a bin, a second over the lower 15 bits inside that bin
gives the value. Where several entries equal the value and not all of them may stay, they are counted block by
block, and the first in the order of places win. So *exactly* the asked number survives, whatever the ties
(half-precision models are full of them), threads or block size. The second pass notes the entries of its bin as it
goes, so that the count needs no third one, unless they are too many to hold.

Where a sample can be had for little, it replaces the first histogram, and one pass finds all (`ops.bracket`).
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from smelt.ops.block import Block, Place
from smelt.ops.bracket import EVERYTHING, Bracket, BracketCounts, add_counts, bracket, find_rank, plan_sample
from smelt.ops.fold import Fold, Scope

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Cut", "Inside", "Largest", "keep_shares", "share"]

_COARSE_BITS, _FINE_BITS = 16, 15
_HELD = 1 << 20
"""Entries of one bin that the second pass may hold, two bytes each."""
_HISTOGRAM = 1 << 20
"""Bytes of the histogram of a row or a rank: half of them its own, and what waits to be added to it."""
Counts: TypeAlias = npt.NDArray[Any]
_Where: TypeAlias = tuple[int, int]


def share(count: int, fraction: float) -> int:
    """floor(count * fraction) as written in decimal: 0.29 of 100 is 29, although 0.29 * 100 < 29 in binary."""
    return min(count, math.floor(round(count * fraction, 6)))


@dataclass(frozen=True, slots=True)
class Cut:
    """Keep the entries above `value` and the first `ties` of those equal to it (all if None)."""

    value: float
    below: float
    """The float32 next below `value`: `x > below` is `x >= value`."""
    ties: int | None


@dataclass(slots=True)
class _Target:
    """One wanted rank of one row, and how far its search has come."""

    row: int
    rank: int
    low: int = 0
    value: int = -1
    spare: int = 0
    """How many of the entries equal to the value may stay."""
    equal: int = 0
    ends: Bracket = EVERYTHING
    """Between which it is looked for."""
    before: dict[_Where, int] = field(default_factory=dict)
    """For each place: how many entries equal to the value lie in earlier places."""
    here: dict[_Where, int] = field(default_factory=dict)
    """And how many in it."""

    @property
    def partial(self) -> bool:
        return 0 < self.spare < self.equal

    def order(self, counts: Sequence[tuple[_Where, int]]) -> None:
        """Take in how many entries equal the value in each place."""
        seen = 0
        for where, count in sorted(counts):
            self.before[where], self.here[where] = seen, count
            seen += count


class Inside:
    """The second pass's part: the entries of one target's bin, counted, and held with their places if they are few."""

    __slots__ = ("counts", "held", "places")

    def __init__(self, bits: npt.NDArray[np.uint16], where: _Where):
        self.counts: Counts = np.zeros(1 << _FINE_BITS, np.int64)
        add_counts(self.counts, bits)
        self.places: list[tuple[_Where, Counts]] | None = [(where, bits)]
        self.held = len(bits)

    def add(self, other: Inside, most: int) -> Inside:
        """`most`: how many entries may be held."""
        self.counts += other.counts
        self.held += other.held
        if self.places is None or other.places is None or self.held > most:
            self.places = None
        else:
            self.places += other.places
        return self


def keep_shares(densities: Sequence[float], scope: Scope) -> Largest | None:
    """The fold that keeps, in each model, its share of the largest changes; None where all keep everything.

    Exactly floor(count * density) stay over a whole model; in a single tensor at least one does.
    """
    if all(density >= 1 for density in densities):
        return None
    least = 1 if scope == "tensor" else 0
    return Largest(lambda row, count: [max(least, share(count, densities[row]))], scope=scope)


class Largest(Fold):
    """For every row of `values(block)` the cuts that keep exactly `ranks(row, count)` largest entries.

    `values` maps a block to non-negative rows, of which there are `rows` (by default the absolute values of the stack,
    a row for each model). A stage receives a list per row of one `Cut` per rank. Where only the values matter and not
    how many entries pass, `exact=False` saves the pass that counts ties.
    """

    passes = 4
    joins_exactly = True
    skips_zeros = False
    """Whether entries that are as good as zero are not there to be ranked."""

    def __init__(
        self,
        ranks: Callable[[int, int], Sequence[int]],
        values: Callable[[Block], Tensor] | None = None,
        scope: Scope = "tensor",
        exact: bool = True,
        rows: int | None = None,
    ):
        self.scope, self._exact, self._rows = scope, exact, rows
        self._values = values or (lambda block: block.stack.abs())
        self._ranks = ranks
        self.step = "coarse"
        """Or `fine`, or `ties`, or `sample`, or `bracket`: what the next pass gathers."""
        self.targets: list[list[_Target]] = []
        """For every row its wanted ranks."""
        self.share = 1.0
        """Which share of the entries the pass `sample` wants to see."""
        self._count, self._held, self._counted, self._held_ties = 0, 0, 0, _HELD

    @property
    def wants_pass(self) -> bool:
        return self.step != "done"

    def sampled(self, count: int, models: int = 1, room: int | None = None) -> None:
        rows, ranks = self._sizes(count, models)
        if room is not None:
            self._held_ties = max(0, min(_HELD, (room - max(rows, ranks) * _HISTOGRAM) // (8 * max(1, ranks))))
        plan = plan_sample(count, rows, ranks, room)
        if plan is not None:
            self.step, self.share, self._count = "sample", plan.share, count
            self._held, self._counted = plan.held, plan.counted

    def holds(self, count: int, models: int, room: int) -> int:
        rows, ranks = self._sizes(count, models)
        plan = plan_sample(count, rows, ranks, room) if room else None
        return plan.bytes if plan is not None else max(rows, ranks) * _HISTOGRAM

    def _sizes(self, count: int, models: int) -> tuple[int, int]:
        """Of how many rows how many ranks are wanted."""
        rows = models if self._rows is None else self._rows
        return rows, sum(len(self._ranks(row, count)) for row in range(rows))

    def look(self, block: Block) -> Any:
        """What this pass gathers from the bits of magnitudes [rows, elements].

        `coarse`: for each row its counts [bins]. `fine`: for each target the entries of its bin. `ties`: for each
        target how many entries equal its value.
        """
        import torch

        rows = self._values(block).flatten(1).contiguous().view(torch.int32)
        where = (block.place.order, block.place.start)
        if self.step == "coarse":
            return [_counts(row >> _FINE_BITS, _COARSE_BITS) for row in rows]
        if self.step == "fine":
            return [Inside(_inside(rows[t.row], t.low), where) for targets in self.targets for t in targets]
        return [
            [(where, _count_equal(rows[t.row], t.value))] if t.partial and not t.before else []
            for targets in self.targets
            for t in targets
        ]

    def join(self, left: Any, right: Any) -> Any:
        pairs = zip(left, right, strict=True)
        if self.step == "coarse":
            return [_add(a, b) for a, b in pairs]
        if self.step == "ties":
            return [a + b for a, b in pairs]
        if self.step == "fine":
            return [a.add(b, self._held_ties) for a, b in pairs]
        joined = [a.add(b) for a, b in pairs]
        if self.step == "bracket":
            for target, around in zip((t for per_row in self.targets for t in per_row), joined, strict=True):
                if around.held > self._held:
                    around.count_held(target.ends, self._counted)
        return joined

    def absorb(self, total: Any) -> None:
        if self.step == "sample":
            self.targets = [self._with_brackets(row, sample) for row, sample in enumerate(total)]
            self.step = "bracket"
            if self.share < 1:
                return
            total = [sample for sample, per_row in zip(total, self.targets, strict=True) for _ in per_row]
        if self.step == "bracket":
            settled = self._settle_brackets(total)
            for around in total:
                around.release()
            self.step = self._ties_or_done() if settled else "coarse"
            return
        if self.step == "coarse":
            self.targets = []
            for row, histogram in enumerate(total):
                if self.skips_zeros:
                    histogram[0] = 0
                count = int(histogram.sum(dtype=np.int64))
                self.targets.append([self._coarse(row, rank, histogram) for rank in self._ranks(row, count)])
            self.step = "fine"
            return
        targets = [t for per_row in self.targets for t in per_row]
        if self.step == "fine":
            for t, inside in zip(targets, total, strict=True):
                self._fine(t, inside)
            self.step = self._ties_or_done()
            return
        for t, counts in zip(targets, total, strict=True):
            if counts:
                t.order(counts)
        self.step = "done"

    def _ties_or_done(self) -> str:
        """What follows when all values are known: where only some of equal entries may stay, it is counted where."""
        unknown = (t.partial and not t.before for per_row in self.targets for t in per_row)
        return "ties" if self._exact and any(unknown) else "done"

    def at(self, place: Place) -> list[list[Cut]]:
        return [[_cut(t, place) for t in targets] for targets in self.targets]

    def _with_brackets(self, row: int, sample: BracketCounts) -> list[_Target]:
        """The brackets of a row's ranks; everything, where the sample is that."""
        ranks = self._ranks(row, self._ranked(sample.held + sample.at_bottom, sample.tiny))
        if self.share == 1:
            return [_Target(row, rank) for rank in ranks]
        sample.forget_places()
        ends = [bracket(sample, rank) for rank in ranks]
        sample.release()
        return [_Target(row, rank, ends=one) for rank, one in zip(ranks, ends, strict=True)]

    def _ranked(self, count: int, tiny: int) -> int:
        return count - tiny if self.skips_zeros else count

    def _settle_brackets(self, parts: Sequence[BracketCounts]) -> bool:
        """Whether every rank lies in its bracket. The ranks are of all entries now, no more of a sample's."""
        left = iter(parts)
        for row, per_row in enumerate(self.targets):
            mine = [next(left) for _ in per_row]
            ranks = self._ranks(row, self._ranked(self._count, mine[0].tiny)) if mine else []
            if not all(map(_settle, per_row, ranks, mine)):
                return False
        return True

    @staticmethod
    def _fine(target: _Target, inside: Inside) -> None:
        bin_, above = _bin_of_rank(inside.counts, target.rank)
        target.value, target.spare = target.low + bin_, target.rank - above
        target.equal = int(inside.counts[bin_])
        if target.partial and inside.places is not None:
            target.order([(where, int(np.count_nonzero(bits == bin_))) for where, bits in inside.places])

    @staticmethod
    def _coarse(row: int, rank: int, histogram: Counts) -> _Target:
        bin_, above = _bin_of_rank(histogram, rank)
        return _Target(row, rank - above, low=bin_ << _FINE_BITS)


def _counts(bins: Tensor, bits: int) -> Counts:
    """In 32 bits: a block is smaller than that, and many blocks' counts may wait to be added up."""
    import torch

    return torch.bincount(bins, minlength=1 << bits).to(torch.int32).cpu().numpy()


def _add(left: Counts, right: Counts) -> Counts:
    """Counts of more than a block, in 64 bits. They are added where the first ones lie."""
    left = left.astype(np.int64, copy=False)
    left += right
    return left


def _inside(row: Tensor, low: int) -> npt.NDArray[np.uint16]:
    """The entries of bits [elements] whose upper bits are those of `low`, as their lower bits [entries]."""
    if row.device.type != "cpu":
        found = (row[(row >> _FINE_BITS) == (low >> _FINE_BITS)] - low).cpu().numpy()
    else:
        bits = row.numpy()  # numpy selects four times faster than torch on a CPU
        found = bits[(bits >> _FINE_BITS) == (low >> _FINE_BITS)] - low
    return found.astype(np.uint16)


def _count_equal(row: Tensor, value: int) -> int:
    if row.device.type != "cpu":
        return int((row == value).sum())
    return int(np.count_nonzero(row.numpy() == value))


def _bin_of_rank(histogram: Counts, rank: int) -> tuple[int, int]:
    """The bin that holds the rank-th largest entry, and how many entries lie in bins above it."""
    from_top = histogram[::-1].cumsum(dtype=np.int64)
    index = min(int(np.searchsorted(from_top, max(rank, 1))), len(histogram) - 1)
    above = int(from_top[index - 1]) if index else 0
    return len(histogram) - 1 - index, above


def _settle(target: _Target, rank: int, around: BracketCounts) -> bool:
    """Take in what is around a target, whose rank is this; False if it is elsewhere."""
    target.rank = rank
    if rank <= 0:
        return True
    found = find_rank(around, target.ends, rank)
    if found is None:
        return False
    target.value, target.spare = found.value, found.spare
    target.equal = found.equal
    if target.partial and found.places is not None:
        target.order(found.places)
    return True


def _cut(target: _Target, place: Place) -> Cut:
    if target.rank <= 0:
        return Cut(math.inf, math.inf, 0)
    value, below = _from_bits(target.value), _from_bits(max(0, target.value - 1))
    if not target.partial:
        return Cut(value, below, None if target.spare else 0)
    where = (place.order, place.start)
    left = max(0, target.spare - target.before.get(where, 0))
    return Cut(value, below, None if left and left >= target.here.get(where, math.inf) else left)


def _from_bits(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])
