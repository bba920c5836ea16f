from __future__ import annotations

import itertools

import numpy as np
import pytest

from smelt.errors import RecipeError
from smelt.tasks.subset import fixed_subset

LABELS = np.array([0] * 50 + [1] * 50 + [2] * 4)
FIXED = [7, 12, 29, 68, 78, 86]
"""A change of this list would change every limited number ever measured."""


def test_classes_keep_the_proportions_of_the_split() -> None:
    labels = np.array([0] * 600 + [1] * 300 + [2] * 100)
    chosen = fixed_subset(labels, 100, "photos/test")
    assert np.abs(np.bincount(labels[chosen]) - [60, 30, 10]).max() <= 1


def test_no_picture_is_more_likely_than_another() -> None:
    labels = np.repeat(np.arange(40), np.arange(1, 41))  # a class of one picture, ..., a class of forty
    times = sum(np.bincount(fixed_subset(labels, 82, f"task {n}/test"), minlength=820) for n in range(400))
    share = np.bincount(labels, times) / np.bincount(labels) / 400  # of each class; one in ten was asked for
    assert np.abs(share - 0.1).max() < 0.05
    assert abs(share[:5].mean() - 0.1) < 0.02  # the rare ones together


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
