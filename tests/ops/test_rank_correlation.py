"""How far two orders agree, and what chance gives."""

from __future__ import annotations

import numpy as np
import pytest

from smelt.ops.rank_correlation import chance, kendall, kendall_each, spearman


def test_rank_correlations_of_a_textbook_case() -> None:
    one, other = np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 1, 4, 3, 5])
    assert spearman(one, other) == pytest.approx(0.8)  # 1 - 6 * 4 / (5 * 24)
    assert kendall(one, other) == pytest.approx(0.6)  # (8 - 2) / 10
    assert (spearman(one, -one), kendall(one, -one)) == (pytest.approx(-1), pytest.approx(-1))


def test_rank_correlations_with_ties_agree_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(0)
    for _ in range(20):
        one, other = rng.integers(4, size=(2, 9)).astype(float)
        assert spearman(one, other) == pytest.approx(stats.spearmanr(one, other).statistic)
        assert kendall(one, other) == pytest.approx(stats.kendalltau(one, other).statistic)


def test_nothing_correlates_with_equal_numbers() -> None:
    assert spearman(np.ones(4), np.arange(4.0)) is None
    assert kendall(np.arange(4.0), np.ones(4)) is None


def test_rank_correlation_shares_the_rank_of_equal_numbers() -> None:
    # Ranks (1, 2.5, 2.5) and (1, 2, 3): covariance 1.5, variances 1.5 and 2.
    found = spearman(np.array([1.0, 2, 2]), np.array([1.0, 2, 3]))
    assert found == pytest.approx(1.5 / (1.5 * 2) ** 0.5)
    # Of three pairs two are in order and one is tied on one side: 2 / sqrt(2 * 3).
    assert kendall(np.array([1.0, 2, 2]), np.array([1.0, 2, 3])) == pytest.approx(2 / 6**0.5)


def test_every_row_has_its_own_tau_and_one_of_equal_numbers_has_none() -> None:
    other = np.array([1.0, 2, 3])
    many = np.array([[1.0, 2, 3], [3.0, 2, 1], [2.0, 1, 3], [1.0, 2, 2], [5.0, 5, 5]])
    assert kendall_each(many, other) == pytest.approx([1, -1, 1 / 3, 2 / 6**0.5, 0])


def test_chance_is_the_share_of_orders_that_agree_or_disagree_as_strongly() -> None:
    three = np.array([1.0, 2, 3])  # of six orders one is the same, one the opposite, four have a tau of 1/3 or -1/3
    assert chance(three, three, 1.0) == pytest.approx(1 / 3, abs=0.01)
    assert chance(three, three, 1 / 3) == 1.0
