import math

import pytest
import torch
from folding import blocks_of
from torch.testing import assert_close

from smelt.errors import NumericalError
from smelt.ops.geometry import (
    gram,
    karcher_weights,
    mean_of_present,
    multislerp_weights,
    row_gram,
    slerp_weights,
    total,
    weighted_sum,
)

ROOT = math.sqrt(0.5)


def plane(*degrees, length=1.0):
    angles = torch.deg2rad(torch.tensor(degrees, dtype=torch.float64))
    return length * torch.stack([angles.cos(), angles.sin()], 1)


def of(vectors):
    return vectors @ vectors.T


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


def test_slerp_weights_of_a_right_angle():
    assert_close(slerp_weights(of(plane(0, 90)), 0.5), torch.tensor([ROOT, ROOT], dtype=torch.float64))
    thirty = torch.tensor([math.sqrt(3) / 2, 0.5], dtype=torch.float64)
    assert_close(slerp_weights(of(plane(0, 90)), 1 / 3), thirty)


def test_slerp_keeps_the_norm_at_any_angle():
    for angle in (10, 60, 90, 150, 175):
        vectors = plane(20, 20 + angle)
        for t in (0.1, 0.5, 0.8):
            point = slerp_weights(of(vectors), t) @ vectors
            assert_close(point, plane(20 + t * angle)[0])


def test_slerp_is_linear_for_vectors_that_are_almost_parallel_or_opposite():
    expected = torch.tensor([0.75, 0.25], dtype=torch.float64)
    for angle in (0, 1, 179.5, 180):
        assert_close(slerp_weights(of(plane(0, angle)), 0.25), expected)
    arc = torch.sin(torch.deg2rad(torch.tensor([1.5, 0.5], dtype=torch.float64))) / math.sin(math.radians(2))
    assert_close(slerp_weights(of(plane(0, 2)), 0.25, 1.0), arc)


def test_slerp_weights_of_many_rows_at_once():
    both = slerp_weights(torch.stack([of(plane(0, 90)), of(plane(0, 0))]), 0.5)
    assert_close(both, torch.tensor([[ROOT, ROOT], [0.5, 0.5]], dtype=torch.float64))


def test_karcher_finds_the_mean_angle():
    vectors = plane(0, 30, 90)
    weights = karcher_weights(of(vectors), [1 / 3] * 3, iterations=50, tolerance=1e-12)
    assert_close(weights @ vectors, plane(40)[0], rtol=1e-9, atol=0)
    weights = karcher_weights(of(vectors), [0.5, 0.0, 0.5], iterations=50, tolerance=1e-12)
    assert_close(weights @ vectors, plane(45)[0], rtol=1e-9, atol=0)


def test_karcher_is_where_the_pulls_cancel():
    """In five dimensions: the tangents to all models add up to nothing at the mean."""
    vectors = torch.randn(4, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 1
    shares = [0.1, 0.2, 0.3, 0.4]
    point = karcher_weights(of(vectors), shares, iterations=200, tolerance=1e-14) @ vectors
    point, units = point / point.norm(), vectors / vectors.norm(dim=1, keepdim=True)
    cosines = (units @ point).clamp(-1, 1)
    angles = cosines.acos()
    pulls = (units - cosines[:, None] * point) * (angles / angles.sin())[:, None]
    assert float((torch.tensor(shares, dtype=torch.float64) @ pulls).norm()) < 1e-9


def test_multislerp_meets_at_the_mean_direction_and_length():
    vectors = torch.diag(torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))
    point = multislerp_weights(of(vectors), [1 / 3] * 3) @ vectors
    assert_close(point, torch.full((3,), 2 / math.sqrt(3), dtype=torch.float64))


@pytest.mark.parametrize(
    "mean", [lambda g: multislerp_weights(g, [0.5, 0.5]), lambda g: karcher_weights(g, [0.5, 0.5], 9, 1e-9)]
)
def test_opposite_directions_have_no_mean_and_zeros_give_zero(mean):
    with pytest.raises(NumericalError, match="cancel"):
        mean(of(plane(0, 180)))
    assert mean(torch.zeros(2, 2, dtype=torch.float64)).tolist() == [0, 0]
