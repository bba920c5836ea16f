import math

import pytest
import torch
from torch.testing import assert_close

import smelt
from by_hand import merge_rows

HALF, ROOT = 0.5, math.sqrt(0.5)


def test_halfway_between_orthogonal_unit_vectors_the_norm_is_one():
    merged = merge_rows("slerp", [1, 0], [0, 1])
    assert_close(merged, torch.tensor([ROOT, ROOT]))
    assert float(merged.norm()) == pytest.approx(1)


def test_a_third_of_a_right_angle_is_thirty_degrees():
    assert_close(merge_rows("slerp", [1, 0], [0, 1], t=1 / 3), torch.tensor([math.sqrt(3) / 2, 0.5]))


def test_the_ends_are_the_models():
    assert_close(merge_rows("slerp", [1, 2], [-3, 1], t=0.0), torch.tensor([1.0, 2.0]))
    assert_close(merge_rows("slerp", [1, 2], [-3, 1], t=1.0), torch.tensor([-3.0, 1.0]))


def test_lengths_are_kept_in_the_mixture():
    """sin 45 / sin 90 of each: (2 * 0.7071, 4 * 0.7071)."""
    assert_close(merge_rows("slerp", [2, 0], [0, 4]), torch.tensor([2 * ROOT, 4 * ROOT]))


def test_almost_parallel_vectors_are_mixed_linearly():
    """1 degree apart, cosine 0.99985: the mean, which is shorter than the arc."""
    angle = math.radians(1)
    expected = torch.tensor([(1 + math.cos(angle)) / 2, math.sin(angle) / 2])
    assert_close(merge_rows("slerp", [1, 0], [math.cos(angle), math.sin(angle)]), expected, rtol=1e-6, atol=0)


def test_the_angle_is_that_of_the_whole_tensor():
    """Rows at a right angle and at none: together <x, y> = 4 of |x| |y| = 5, and not row by row."""
    first, second = [[1, 0], [0, 2]], [[0, 1], [0, 2]]
    angle = math.acos(4 / 5)
    each = math.sin(angle / 2) / math.sin(angle)
    assert_close(merge_rows("slerp", first, second), each * torch.tensor([[1.0, 1.0], [0.0, 4.0]]))


def test_each_tensor_has_its_own_angle():
    first = {"a": torch.tensor([1.0, 0.0]), "b": torch.tensor([1.0, 0.0])}
    second = {"a": torch.tensor([0.0, 1.0]), "b": torch.tensor([1.0, 0.0])}
    merged = smelt.merge([first, second], method="slerp")
    assert_close(merged["a"], torch.tensor([ROOT, ROOT]))
    assert_close(merged["b"], torch.tensor([1.0, 0.0]))


def test_opposite_and_zero_tensors_give_numbers():
    assert merge_rows("slerp", [1, 2], [-1, -2]).tolist() == [0, 0]
    assert bool(torch.isfinite(merge_rows("slerp", [0, 0], [1, 2])).all())


def test_two_models_exactly():
    with pytest.raises(smelt.RecipeError, match="exactly 2"):
        merge_rows("slerp", [1], [2], [3])
