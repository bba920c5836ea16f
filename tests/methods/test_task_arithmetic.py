import pytest
import torch
from torch.testing import assert_close

import smelt
from by_hand import merge_rows


def test_the_scaled_sum_of_the_changes_is_added_to_the_base():
    """Changes 1 and 3 from a base of 1: 1 + 0.5 * 4 = 3."""
    assert merge_rows("task_arithmetic", [2], [4], base=[1], scale=0.5).tolist() == [3]


def test_the_default_scale_is_three_tenths():
    assert merge_rows("task_arithmetic", [2], [4], base=[1]).item() == pytest.approx(2.2)


def test_a_negative_weight_takes_a_change_out():
    """1 + 1 - 3 = -1."""
    assert merge_rows("task_arithmetic", [2], [4], base=[1], scale=1.0, weights=[1, -1]).tolist() == [-1]


def test_normalize_divides_by_the_weights():
    """1 + (1 * 1 + 3 * 3) / 4 = 3.5."""
    merged = merge_rows("task_arithmetic", [2], [4], base=[1], scale=1.0, weights=[1, 3], normalize=True)
    assert merged.tolist() == [3.5]


def test_with_normalize_and_scale_one_it_is_the_average():
    models = [0.5, -1.0, 2.0], [1.5, 3.0, 2.0]
    arithmetic = merge_rows("task_arithmetic", *models, base=[1, 2, 3], scale=1.0, normalize=True)
    assert_close(arithmetic, merge_rows("average", *models))


def test_it_needs_a_base():
    with pytest.raises(smelt.RecipeError, match="works on changes from a base, and none is given"):
        smelt.merge([{"w": torch.ones(1)}, {"w": torch.zeros(1)}], method="task_arithmetic")
