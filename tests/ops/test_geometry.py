import pytest
import torch
from torch.testing import assert_close

from folding import blocks_of
from smelt.ops.geometry import (
    gram,
    mean_of_present,
    row_gram,
    total,
    weighted_sum,
)


def test_weighted_sum_takes_a_list_or_a_column():
    stack = torch.tensor([[1.0, 2.0], [10.0, 20.0]])
    assert weighted_sum(stack, [2.0, 0.5]).tolist() == [7, 14]
    assert weighted_sum(stack, torch.tensor([[2.0], [0.5]])).tolist() == [7, 14]
    assert stack.tolist() == [[1, 2], [10, 20]]


def test_weighted_sum_wants_one_weight_per_model():
    with pytest.raises(ValueError, match="shorter"):
        weighted_sum(torch.ones(3, 2), [1.0, 1.0])


def test_mean_of_present_counts_those_that_are_not_zero():
    stack = torch.tensor([[6.0, 1.0, 0.0, -2.0], [3.0, 0.0, 0.0, 2.0], [0.0, 0.0, 0.0, 0.0]])
    assert mean_of_present(stack).tolist() == [4.5, 1, 0, 0]


@pytest.mark.parametrize("models", [1, 3, 9])
def test_gram_adds_up_over_blocks_in_float64(models):
    stack = torch.randn(models, 1000, generator=torch.Generator().manual_seed(0))
    parts = [gram(block) for block in blocks_of([stack], 77)]
    assert all(part.dtype == torch.float64 for part in parts)
    assert_close(sum(parts), stack.double() @ stack.double().T, rtol=1e-5, atol=1e-4)


def test_total_adds_the_models_and_leaves_them_alone():
    stack = torch.tensor([[1.0, 2.0], [10.0, 20.0], [100.0, 200.0]])
    assert total(stack).tolist() == [111, 222]
    assert stack[0].tolist() == [1, 2]


def test_row_gram_has_one_matrix_per_row():
    stack = torch.tensor([[[1.0, 0.0], [1.0, 1.0]], [[0.0, 2.0], [1.0, 1.0]]])
    assert row_gram(stack).tolist() == [[[1, 0], [0, 4]], [[2, 2], [2, 2]]]
