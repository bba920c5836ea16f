import math

import pytest
import torch
from torch.testing import assert_close

import smelt
from by_hand import merge_rows

ROOT = math.sqrt(0.5)


def test_weights_say_how_far_to_go():
    """1 : 2 is two thirds of the right angle, 60 degrees."""
    assert_close(merge_rows("nuslerp", [1, 0], [0, 1], weights=[1, 2]), torch.tensor([0.5, math.sqrt(3) / 2]))


def test_equal_weights_are_slerp_halfway():
    first, second = [1.0, 2.0, 3.0], [3.0, -1.0, 2.0]
    assert_close(merge_rows("nuslerp", first, second), merge_rows("slerp", first, second))


def test_row_by_row_each_output_unit_turns_by_itself():
    first, second = [[1, 0], [0, 2]], [[0, 1], [0, 2]]
    assert_close(merge_rows("nuslerp", first, second, over="row"), torch.tensor([[ROOT, ROOT], [0.0, 2.0]]))


def test_column_by_column_each_input_does():
    first, second = [[1, 0], [0, 2]], [[0, 0], [1, 2]]
    assert_close(merge_rows("nuslerp", first, second, over="column"), torch.tensor([[ROOT, 0.0], [ROOT, 2.0]]))


def test_rows_of_a_transposed_matrix_are_columns():
    draw = torch.Generator().manual_seed(0)
    first, second = torch.randn(2, 3, 5, generator=draw)
    rows = merge_rows("nuslerp", first.tolist(), second.tolist(), over="row", weights=[1, 3])
    columns = merge_rows("nuslerp", first.T.tolist(), second.T.tolist(), over="column", weights=[1, 3])
    assert_close(rows, columns.T)


def test_around_the_base_the_changes_are_interpolated():
    merged = merge_rows("nuslerp", [6, 5], [5, 6], base=[5, 5], around="base")
    assert_close(merged, torch.tensor([5 + ROOT, 5 + ROOT]))


def test_almost_parallel_vectors_still_follow_the_arc():
    """1 degree apart: unlike slerp, the result has norm 1."""
    angle = math.radians(1)
    merged = merge_rows("nuslerp", [1, 0], [math.cos(angle), math.sin(angle)])
    assert_close(merged, torch.tensor([math.cos(angle / 2), math.sin(angle / 2)]), rtol=1e-6, atol=0)


@pytest.mark.parametrize("over", ["tensor", "row", "column"])
def test_a_bias_or_norm_is_one_vector_whatever_the_direction(over):
    assert_close(merge_rows("nuslerp", [1, 0], [0, 1], over=over), torch.tensor([ROOT, ROOT]))


@pytest.mark.parametrize("over", ["tensor", "row", "column"])
def test_a_single_number_is_mixed_linearly(over):
    assert merge_rows("nuslerp", 1.0, 3.0, base=0.0, weights=[1, 3], over=over).item() == 2.5


def test_weights_that_cancel_are_refused():
    with pytest.raises(smelt.RecipeError, match="sum to zero"):
        merge_rows("nuslerp", [1, 0], [0, 1], weights=[1, -1])
