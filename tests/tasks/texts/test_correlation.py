"""Spearman's correlation is scipy's, and its interval is the same every time."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import spearmanr

from smelt.tasks.texts.correlation import average_ranks, spearman, spearman_interval


def test_equal_numbers_share_the_mean_of_their_ranks() -> None:
    assert average_ranks(np.array([5.0, 1.0, 5.0, 9.0])).tolist() == [2.5, 1.0, 2.5, 4.0]


@pytest.mark.parametrize("seed", range(4))
def test_it_is_that_of_scipy_with_ties(seed: int) -> None:
    draw = np.random.default_rng(seed)
    one, other = draw.integers(0, 6, 50).astype(float), draw.normal(size=50).round(1)
    assert spearman(one, other) == pytest.approx(spearmanr(one, other)[0], abs=1e-12)


def test_order_alone_matters() -> None:
    assert spearman([1, 2, 3], [10, 100, 1000]) == 1
    assert spearman([1, 2, 3], [3, 2, 1]) == -1


def test_nothing_correlates_with_a_constant() -> None:
    assert spearman([1, 1, 1], [1, 2, 3]) is None


def test_the_interval_holds_the_value_and_narrows_with_more_pairs() -> None:
    draw = np.random.default_rng(0)
    gold = draw.normal(size=400)
    found = gold + draw.normal(size=400)
    few, many = spearman_interval(found[:40], gold[:40]), spearman_interval(found, gold)
    assert few[1] - few[0] > many[1] - many[0]
    assert many[0] < spearman(found, gold) < many[1]
    assert spearman_interval(found, gold) == many


def test_of_few_pairs_it_is_at_least_fishers() -> None:
    gold, found = [1.0, 2, 3, 4, 5], [1.0, 2, 3, 5, 4]
    rho = 0.9  # 1 - 6 · 2 / (5 · 24)
    spread = 1.959963984540054 * np.sqrt((1 + rho * rho / 2) / 2)
    assert spearman_interval(found, gold)[0] <= np.tanh(np.arctanh(rho) - spread)
    assert spearman_interval([1, 2, 3], [1, 2, 3]) == (-1, 1)
