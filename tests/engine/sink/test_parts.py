from __future__ import annotations

from smelt.engine.sink.parts import MOST_PARTS, cut_into_parts


def test_a_part_ends_at_the_first_cut_that_makes_it_large_enough():
    assert cut_into_parts(100, [10, 20, 30, 55, 90], least=25) == [(0, 30), (30, 55), (55, 90), (90, 100)]


def test_a_file_without_cuts_is_one_part():
    assert cut_into_parts(100, [], least=10) == [(0, 100)]


def test_a_cut_at_the_end_makes_no_empty_part():
    assert cut_into_parts(60, [30, 60], least=30) == [(0, 30), (30, 60)]


def test_parts_grow_where_there_would_be_too_many():
    parts = cut_into_parts(3 * MOST_PARTS, range(1, 3 * MOST_PARTS), least=1)
    assert len(parts) == MOST_PARTS
    assert {stop - start for start, stop in parts} == {3}
