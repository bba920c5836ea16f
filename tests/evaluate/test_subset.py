from __future__ import annotations

import itertools

import numpy as np
import pytest

from smelt.errors import RecipeError
from smelt.evaluate.subset import fixed_subset

LABELS = np.array([0] * 50 + [1] * 50 + [2] * 4)
FIXED = [9, 19, 89, 95, 100, 102]
"""Two of each class; a change of this list would change every limited number ever measured."""


def test_classes_take_turns_until_one_has_no_more() -> None:
    chosen = fixed_subset(LABELS, 24, "photos/test")
    assert np.bincount(LABELS[chosen]).tolist() == [10, 10, 4]


def test_a_smaller_part_lies_within_a_larger_one() -> None:
    parts = [set(fixed_subset(LABELS, limit, "photos/test")) for limit in (1, 10, 60, 104)]
    assert all(small < large for small, large in itertools.pairwise(parts))
    assert [len(part) for part in parts] == [1, 10, 60, 104]


def test_the_part_is_fixed_for_all_time() -> None:
    assert fixed_subset(LABELS, 6, "photos/test").tolist() == FIXED


def test_another_split_gives_another_part() -> None:
    assert fixed_subset(LABELS, 6, "photos/val").tolist() != FIXED


def test_no_limit_or_a_large_one_takes_everything() -> None:
    assert fixed_subset(LABELS, None, "x").tolist() == fixed_subset(LABELS, 500, "x").tolist() == list(range(104))


def test_a_limit_of_nothing_is_refused() -> None:
    with pytest.raises(RecipeError, match="at least 1; got 0"):
        fixed_subset(LABELS, 0, "x")
