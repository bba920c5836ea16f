from __future__ import annotations

import pytest

from smelt.tasks.intervals import bootstrap, interval_of, wilson


def test_half_of_four_at_z_two_is_a_sixth_of_eight_wide() -> None:
    # (2 + 4/2 ± 2 √(2·2/4 + 4/4)) / (4 + 4) = (4 ± 2√2) / 8
    low, high = wilson(2, 4, z=2.0)
    assert low == pytest.approx((4 - 2 * 2**0.5) / 8)
    assert high == pytest.approx((4 + 2 * 2**0.5) / 8)


def test_none_and_all_right_give_an_end_of_the_scale_and_a_width() -> None:
    # at k = 0 the upper end is z² / (n + z²)
    assert wilson(0, 96, z=2.0) == (0.0, pytest.approx(0.04))
    assert wilson(96, 96, z=2.0) == (pytest.approx(0.96), 1.0)


def test_fifteen_hundred_pictures_give_less_than_five_points() -> None:
    low, high = wilson(750, 1500)
    assert high - low < 0.051
    assert (low + high) / 2 == pytest.approx(0.5)


@pytest.mark.parametrize(("correct", "n"), [(1, 0), (5, 4), (-1, 4)])
def test_no_share_is_no_interval(correct: int, n: int) -> None:
    with pytest.raises(ValueError, match="no share"):
        wilson(correct, n)


def test_the_bootstrap_of_equal_scores_is_a_point() -> None:
    assert bootstrap([0.4] * 7) == pytest.approx((0.4, 0.4))


def test_the_bootstrap_is_near_the_normal_interval_and_the_same_every_time() -> None:
    scores = [0.2, 0.8] * 200  # the mean has a deviation of 0.3 / 20
    low, high = bootstrap(scores)
    assert (low, high) == pytest.approx((0.5 - 1.96 * 0.015, 0.5 + 1.96 * 0.015), abs=0.004)
    assert bootstrap(scores) == (low, high)


def test_many_examples_are_drawn_in_pieces() -> None:
    low, high = bootstrap([0.0, 1.0] * 1000)
    assert (low, high) == pytest.approx(wilson(1000, 2000), abs=0.003)


def test_right_and_wrong_have_wilsons_interval_and_many_other_scores_the_bootstraps() -> None:
    assert interval_of([1.0, 0.0, 1.0, 1.0]) == wilson(3, 4)
    assert interval_of([1.0, 0.5] * 10) == bootstrap([1.0, 0.5] * 10)


def test_few_scores_are_never_certain() -> None:
    # one score of 0.4: k = 0.4, n = 1, (0.4 + z²/2 ± z √(0.24 + z²/4)) / (1 + z²)
    z = 1.959963984540054
    low, high = (0.4 + z * z / 2 + sign * z * (0.24 + z * z / 4) ** 0.5 for sign in (-1, 1))
    assert interval_of([0.4]) == pytest.approx((low / (1 + z * z), high / (1 + z * z)))
    assert interval_of([0.4] * 19) == wilson(19 * 0.4, 19)
    assert interval_of([0.4, 0.0, 1.0])[0] <= bootstrap([0.4, 0.0, 1.0])[0]


def test_no_scores_have_no_interval() -> None:
    with pytest.raises(ValueError, match="no scores"):
        bootstrap([])
