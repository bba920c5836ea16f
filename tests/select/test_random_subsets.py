"""Random subsets: the same for every method, and a spread with its right names."""

from __future__ import annotations

import pytest

from smelt.errors import RecipeError
from smelt.select.subsets import random_subsets, spread

_NAMES = [f"m{number}" for number in range(10)]


def test_the_same_words_give_the_same_subsets_and_another_seed_others():
    assert random_subsets(_NAMES, 7, 3) == random_subsets(list(_NAMES), 7, 3)
    assert random_subsets(_NAMES, 7, 3) != random_subsets(_NAMES, 7, 3, seed=1)


def test_no_subset_comes_twice_and_names_keep_their_order():
    found = random_subsets(_NAMES[:4], 2, 6)
    assert len(set(found)) == 6
    assert all(list(one) == sorted(one) for one in found)


def test_more_subsets_than_there_are_is_refused():
    with pytest.raises(RecipeError, match="there are 6 subsets of 2 among 4 models; got 7"):
        random_subsets(_NAMES[:4], 2, 7)
    with pytest.raises(RecipeError, match="has 1 to 4 of them; got 5"):
        random_subsets(_NAMES[:4], 5, 1)


def test_the_papers_standard_error_is_a_standard_deviation():
    """Linear on three random selections: 57.85, 57.48, 50.95."""
    found = spread([57.85, 57.48, 50.95])
    assert (found.n, found.mean) == (3, pytest.approx(55.4267, abs=1e-4))
    assert found.sd == pytest.approx(3.88, abs=0.005)
    assert found.standard_error == pytest.approx(2.24, abs=0.005)
    assert (found.lowest, found.highest) == (50.95, 57.85)


def test_one_value_has_no_spread():
    assert spread([3.0]).standard_error is None
