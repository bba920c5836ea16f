"""A rank inside a bracket is found with the entries that share its magnitude; one outside is told of."""

import numpy as np
import pytest

from smelt.ops.bracket import EVERYTHING, BracketCounts, bracket, find_rank, plan_sample

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


def test_few_entries_are_their_own_sample_and_many_are_seen_in_part():
    shares = [plan_sample(count).share for count in (1000, 1 << 24, 1 << 30, 1 << 36)]
    assert shares == [1, 1 / 128, 1 / 256, 2.0**-14]


def test_what_is_held_is_the_sample_or_the_brackets_and_one_more_for_a_copy():
    """Of 2**20 entries a sample has 2**15 and a bracket 5 * (2**20 / 2**7.5 + 2**6): 29,284; four bytes each."""
    assert plan_sample(1 << 20, rows=3, brackets=3).bytes == 4 * (3 + 1) * 32_768
    assert plan_sample(1 << 20, rows=3, brackets=6).bytes == 4 * (6 + 1) * 29_284
    assert plan_sample(1000, rows=3, brackets=3).bytes == 4 * (3 + 1) * 1000


def test_a_smaller_room_makes_a_smaller_sample_and_then_none():
    """A sample of 2**22 entries of one row takes 32 MiB with its copy, one of 2**20 a quarter of it."""
    assert plan_sample(1 << 30, room=32 << 20).share == 1 / 256
    assert plan_sample(1 << 30, room=8 << 20).share == 1 / 1024
    assert plan_sample(1 << 30, room=1 << 20) is None


def test_what_cannot_be_held_is_counted_and_then_left_to_histograms():
    """Of 2**33 entries a bracket has 21 million, 84 MB; its magnitudes are fewer than 2**25 / 400 times 8 bytes."""
    roomy = plan_sample(1 << 33, room=400 << 20)
    assert roomy.held > 21_000_000
    counting = plan_sample(1 << 33, room=64 << 20)
    assert (counting.held, counting.share) == (1 << 20, 2.0**-11)
    assert counting.counted > 2**25 * 5 / 2**11
    assert counting.bytes <= 64 << 20


@pytest.mark.parametrize("room", [0, 1 << 20, 5_000_000, 1 << 25, 1 << 30])
@pytest.mark.parametrize("count", [5, 40_000, 3_000_000, 480_000_000, 70_000_000_000])
def test_no_more_is_planned_than_there_is_room(count, room):
    for rows, brackets in ((1, 1), (3, 6), (32, 32)):
        plan = plan_sample(count, rows, brackets, room)
        assert plan is None or plan.bytes <= room + 4 * (rows + 1)  # a sample is rounded up


def counted(parts, ends, most=100):
    met = parts[0]
    for part in parts[1:]:
        met.count_held(ends, most)
        met.add(part)
    return met


@pytest.mark.parametrize("rank", range(1, 8))
def test_a_rank_that_is_counted_is_the_one_that_is_held_but_nobody_knows_where(rank):
    """Of neighbours of 1 in float32: a bracket from the first to the sixth, with one value thrice."""
    one = int(bits(1.0)[0])
    values = [np.array([one + step], np.uint32).view(np.float32)[0] for step in (0, 1, 2, 3, 3, 3, 5, 7)]
    ends = (one, one + 5)
    held = find_rank(around(values[:4], ends).add(around(values[4:], ends, LATER)), ends, rank)
    found = find_rank(counted([around(values[:4], ends), around(values[4:], ends, LATER)], ends), ends, rank)
    if held is None:
        assert found is None
        return
    assert (found.value, found.spare, found.equal) == (held.value, held.spare, held.equal)
    assert (found.places is None) == (one < held.value < one + 5)


def test_what_is_neither_held_nor_counted_is_lost_and_not_guessed():
    """Between 3 and 7 float32 has ten million magnitudes: too many to count. What equals the upper end is known."""
    ends = (int(bits(3.0)[0]), int(bits(7.0)[0]))
    met = around([9.0, 7.0, 5.0, 3.0], ends)
    met.count_held(ends, 100)
    assert met.held == 0
    assert find_rank(met, ends, 2).value == ends[1]
    assert find_rank(met, ends, 3) is None
    assert find_rank(met, ends, 4) is None
