import pytest
import torch
from torch.testing import assert_close

from smelt.errors import NumericalError
from smelt.ops.least_squares import gram_mean

ONE, OTHER = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])


def solved(first, second, weights=(ONE, OTHER), reduction=1.0, ridge=0.0):
    grams = torch.tensor([first, second], dtype=torch.float32)
    return gram_mean(torch.stack(list(weights)), grams, reduction=reduction, ridge=ridge)


def near(values):
    return torch.tensor([values], dtype=torch.float64)


def test_each_input_is_weighted_by_how_large_it_is_in_each_models_data():
    """(1*3 + 0*1) / (3 + 1) and (0*1 + 1*1) / (1 + 1)."""
    assert_close(solved([[3, 0], [0, 1]], [[1, 0], [0, 1]]), near([0.75, 0.5]))


def test_correlated_inputs_speak_for_one_another():
    """W1 G1 = (2, 1) and W2 G2 = (-1, 2); the Grams add up to 4 on the diagonal."""
    grams = [[2, 1], [1, 2]], [[2, -1], [-1, 2]]
    assert_close(solved(*grams), near([0.25, 0.75]))
    assert_close(solved(*grams, reduction=0.5), near([0.375, 0.625]))
    assert_close(solved(*grams, reduction=0.0), near([0.5, 0.5]))


def test_the_result_is_least_squares_over_all_inputs():
    draw = torch.Generator().manual_seed(0)
    inputs = torch.randn(3, 9, 4, generator=draw, dtype=torch.float64)
    weights = torch.randn(3, 2, 4, generator=draw, dtype=torch.float64)
    expected = torch.linalg.lstsq(inputs.flatten(0, 1), (inputs @ weights.mT).flatten(0, 1)).solution.mT
    assert_close(gram_mean(weights, inputs.mT @ inputs / 9, reduction=1.0, ridge=0.0), expected)


def test_equal_grams_give_the_mean():
    same = [[5.0, 1.0], [1.0, 2.0]]
    assert_close(solved(same, same, ridge=0.3), near([0.5, 0.5]))


def test_equal_weights_come_back_to_the_last_bit_however_unlike_the_grams():
    weights = torch.tensor([[0.1, 0.7]])
    grams = [[1e6, 3.0], [3.0, 1e-3]], [[1e-4, 0.0], [0.0, 1e5]]
    assert torch.equal(solved(*grams, weights=(weights, weights), ridge=1e-6).float(), weights)


def test_an_input_that_no_data_used_has_the_mean_of_its_columns():
    """The first is (1*1 + 5*3) / 4; the second, of which nothing is known, (4 + 8) / 2."""
    weights = torch.tensor([[1.0, 4.0]]), torch.tensor([[5.0, 8.0]])
    merged = solved([[1, 0], [0, 0]], [[3, 0], [0, 0]], weights=weights, ridge=1e-9)
    assert_close(merged, near([4.0, 6.0]))


def test_the_ridge_draws_to_the_mean_and_is_relative_to_the_grams():
    """The mean diagonal is 1.5, so a ridge of 2 adds 3: (3 + 3) / (4 + 6) and 4 / (2 + 6)."""
    assert_close(solved([[3, 0], [0, 1]], [[1, 0], [0, 1]], ridge=2.0), near([0.6, 0.5]))
    assert_close(solved([[300, 0], [0, 100]], [[100, 0], [0, 100]], ridge=2.0), near([0.6, 0.5]))


def test_no_input_at_all_gives_the_mean_under_any_ridge():
    assert_close(solved([[0, 0], [0, 0]], [[0, 0], [0, 0]], ridge=1e-6), near([0.5, 0.5]))


def test_inputs_of_very_different_size_lose_no_digits():
    grams = [[1e8, 0], [0, 1e-8]], [[1e8, 0], [0, 3e-8]]
    assert_close(solved(*grams), near([0.5, 0.75]))


@pytest.mark.parametrize(
    ("gram", "why"),
    [
        ([[1, 1], [1, 1]], "combinations of one another"),
        ([[1, 0], [0, 0]], "zero in all data"),
        ([[1, 2], [2, 1]], "combinations of one another"),
        ([[1, 1], [1, 1 + 2**-23]], "combinations of one another"),  # singular but for the rounding to float32
    ],
)
def test_a_singular_sum_is_refused_with_the_remedy(gram, why):
    with pytest.raises(NumericalError, match=rf"singular \(.*{why}.*\); measure them on more examples.*`ridge`"):
        solved(gram, gram)


def test_a_singular_sum_is_solved_with_reduction_or_a_ridge():
    gram = [[1, 1], [1, 1]]
    assert_close(solved(gram, gram, reduction=0.95), near([0.5, 0.5]))
    assert_close(solved(gram, gram, ridge=1e-6), near([0.5, 0.5]))


def test_the_inputs_are_left_as_they_are():
    weights, grams = torch.stack([ONE, OTHER]), torch.eye(2).repeat(2, 1, 1)
    gram_mean(weights, grams, reduction=0.5, ridge=0.1)
    assert torch.equal(weights, torch.stack([ONE, OTHER]))
    assert torch.equal(grams, torch.eye(2).repeat(2, 1, 1))
