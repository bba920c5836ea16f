import math

import pytest
import torch
from torch.testing import assert_close

import smelt
from by_hand import merge_rows


def test_orthogonal_changes_give_the_base():
    """U10."""
    assert merge_rows("model_stock", [2, 1], [1, 2], base=[1, 1]).tolist() == [1, 1]


def test_equal_changes_give_the_mean():
    """U10."""
    assert_close(merge_rows("model_stock", [4, 5], [4, 5], base=[1, 1]), torch.tensor([4.0, 5.0]))


def test_parallel_changes_of_different_length_give_the_mean():
    assert_close(merge_rows("model_stock", [1, 2], [3, 6]), torch.tensor([2.0, 4.0]))


def test_sixty_degrees_go_two_thirds_of_the_way():
    """U10: c = 1/2, so t = 2 c / (1 + c) = 2/3 of the mean (0.75, 0.433)."""
    half = math.sqrt(3) / 2
    assert_close(merge_rows("model_stock", [1, 0], [0.5, half]), torch.tensor([0.5, half / 3]))


def test_with_three_models_the_mean_cosine_counts():
    """Two equal ones and one orthogonal: c = 1/3, t = 3 c / (1 + 2 c) = 3/5 of the mean (2/3, 1/3)."""
    assert_close(merge_rows("model_stock", [1, 0], [1, 0], [0, 1]), torch.tensor([0.4, 0.2]))


def test_opposite_changes_give_the_base():
    assert merge_rows("model_stock", [3, 1], [1, 3], base=[2, 2]).tolist() == [2, 2]


def test_over_rows_each_output_unit_has_its_own_step():
    """Row one is orthogonal, row two equal. Over the tensor c = 4 / 5, t = 8/9."""
    first, second = [[1, 0], [0, 2]], [[0, 1], [0, 2]]
    assert_close(merge_rows("model_stock", first, second, over="row"), torch.tensor([[0.0, 0.0], [0.0, 2.0]]))
    assert_close(merge_rows("model_stock", first, second), 8 / 9 * torch.tensor([[0.5, 0.5], [0.0, 2.0]]))


def test_one_model_is_refused():
    with pytest.raises(smelt.RecipeError, match="at least 2"):
        merge_rows("model_stock", [1, 0])
