import math

import pytest
import torch
from torch.testing import assert_close

import smelt
from by_hand import merge_rows

ROOT = math.sqrt(0.5)


def test_two_orthogonal_vectors_meet_halfway_at_their_mean_length():
    """45 degrees, length (2 + 4) / 2 = 3."""
    assert_close(merge_rows("multislerp", [2, 0], [0, 4]), torch.tensor([3 * ROOT, 3 * ROOT]))


def test_three_axes_give_the_diagonal():
    merged = merge_rows("multislerp", [1, 0, 0], [0, 1, 0], [0, 0, 1])
    assert_close(merged, torch.full((3,), 1 / math.sqrt(3)))


def test_a_weight_of_zero_is_no_vote():
    assert_close(merge_rows("multislerp", [2, 0], [0, 4], weights=[1, 0]), torch.tensor([2.0, 0.0]))


def test_the_result_has_the_weighted_mean_length():
    """(3 * 2 + 1 * 4) / 4 = 2.5."""
    assert float(merge_rows("multislerp", [2, 0], [0, 4], weights=[3, 1]).norm()) == pytest.approx(2.5)


def test_around_the_base_it_works_on_changes():
    merged = merge_rows("multislerp", [7, 5], [5, 9], base=[5, 5], around="base")
    assert_close(merged, torch.tensor([5 + 3 * ROOT, 5 + 3 * ROOT]))


def test_directions_that_cancel_have_no_mean():
    with pytest.raises(smelt.NumericalError, match="cancel"):
        merge_rows("multislerp", [1, 2], [-1, -2])


def test_an_untouched_tensor_stays():
    assert merge_rows("multislerp", [5, 5], [5, 5], base=[5, 5], around="base").tolist() == [5, 5]


def test_weights_that_sum_to_zero_are_refused():
    with pytest.raises(smelt.RecipeError, match="sum to zero"):
        merge_rows("multislerp", [1, 0], [0, 1], weights=[1, -1])
