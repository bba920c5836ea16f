import pytest

from by_hand import merge_rows


def test_what_two_models_find_important_stays():
    """Both have 1 of a sum of 2: 1 >= 0.4 * 1. The default scale is 0.3, so 0.6."""
    assert merge_rows("consensus", [1], [1]).item() == pytest.approx(0.6)


def test_what_only_one_model_finds_important_is_dropped():
    """1 >= 0.4 * 0.1, but 0.1 < 0.4 * 1: one vote of the two that are needed."""
    assert merge_rows("consensus", [1], [0.1]).item() == 0


def test_agree_says_how_many_votes_are_needed():
    assert merge_rows("consensus", [1], [0.1], agree=1).item() == pytest.approx(0.33)
    assert merge_rows("consensus", [1], [1], agree=3).item() == 0


def test_each_model_may_have_its_own_threshold():
    """With 0.05 the second votes too: 0.1 >= 0.05 * 1."""
    assert merge_rows("consensus", [1], [0.1], threshold=[0.4, 0.05], scale=1.0).item() == pytest.approx(1.1)


def test_an_entry_is_compared_with_what_the_others_add_up_to():
    """4 against -2 - 2 = -4 is as large; 2 against 4 - 2 = 2 is as large. Three votes, and the sum is 0."""
    assert merge_rows("consensus", [4, 4], [-2, -2], [-2, 2], scale=1.0).tolist() == [0, 4]


def test_the_base_stays_where_there_is_no_consensus():
    assert merge_rows("consensus", [6, 6], [5, 6], base=[5, 5], scale=1.0).tolist() == [5, 7]
