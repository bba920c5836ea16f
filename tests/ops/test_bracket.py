"""A rank inside a bracket is found with the entries that share its magnitude; one outside is told of."""

import numpy as np
import pytest

from smelt.ops.bracket import EVERYTHING, BracketCounts, bracket, find_rank, sample_share

PLACE, LATER = (0, 0), (0, 8)


def bits(*values):
    return np.array(values, np.float32).view(np.uint32)


def around(values, ends, where=PLACE):
    """What a pass over these magnitudes would meet."""
    low, high = ends
    found = bits(*values)
    inside = found[(found > low) & (found < high)]
    bottom = int((found == low).sum()) if low != high else 0
    return BracketCounts(
        int((found > high).sum()), 0, [(where, int((found == high).sum()))], [(where, inside)], [(where, bottom)]
    )


def test_the_rank_is_counted_from_above_the_bracket():
    """Of 9 7 5 5 3 1 the bracket from 3 to 7 leaves one above; the third largest is a 5, and one of two may stay."""
    ends = (int(bits(3.0)[0]), int(bits(7.0)[0]))
    met = around([9.0, 5.0, 1.0], ends).add(around([7.0, 5.0, 3.0], ends, LATER))
    third = find_rank(met, ends, 3)
    assert third is not None
    assert (third.value, third.spare, third.places) == (int(bits(5.0)[0]), 1, [(PLACE, 1), (LATER, 1)])
    ends_met = [find_rank(met, ends, rank) for rank in (2, 5)]
    assert [found and (found.value, found.places) for found in ends_met] == [
        (ends[1], [(PLACE, 0), (LATER, 1)]),
        (ends[0], [(PLACE, 0), (LATER, 1)]),
    ]


@pytest.mark.parametrize("rank", [1, 6])
def test_a_rank_outside_is_not_found(rank):
    ends = (int(bits(3.0)[0]), int(bits(7.0)[0]))
    assert find_rank(around([9.0, 7.0, 5.0, 5.0, 3.0, 1.0], ends), ends, rank) is None


def test_a_magnitude_that_most_entries_have_is_both_ends():
    """Nine tenths of the sample are 2: nothing has to be held to find the median."""
    sample = around([1.0] * 50 + [2.0] * 900 + [3.0] * 50, EVERYTHING)
    two = int(bits(2.0)[0])
    assert bracket(sample, 500) == (two, two)


def test_a_bracket_reaches_five_deviations_to_either_side():
    """Of 1..10000 the median's rank has a deviation of 50: the ends are 255 ranks away."""
    sample = around(np.arange(1.0, 10001), EVERYTHING)
    assert bracket(sample, 5000) == (int(bits(4746.0)[0]), int(bits(5256.0)[0]))


def test_a_rank_near_an_end_leaves_that_end_open():
    sample = around(np.arange(1.0, 101), EVERYTHING)
    assert bracket(sample, 1)[1] == EVERYTHING[1]
    assert bracket(sample, 100)[0] == 0


def test_few_entries_are_their_own_sample_and_too_many_have_none():
    assert sample_share(1000) == 1
    assert sample_share(1 << 24) == 1 / 128
    assert sample_share(1 << 30) == 1 / 256
    assert sample_share(1 << 32) is None


def test_what_many_models_hold_together_is_bounded() -> None:
    """A bracket of a billion entries whose sample has four million holds 2.6 million: 32 models may hold no 84."""
    assert sample_share(1 << 30, models=3) == 1 / 256
    assert sample_share(1 << 30, models=32) is None
    assert sample_share(25_000_000, models=64) == 1 / 128
