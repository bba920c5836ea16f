"""Means on the sphere, by their Gram matrices."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose

from smelt.errors import NumericalError
from smelt.ops.sphere import karcher_weights, multislerp_weights, slerp_weights

ROOT = math.sqrt(0.5)


def plane(*degrees, length=1.0):
    angles = np.deg2rad(np.array(degrees, np.float64))
    return length * np.stack([np.cos(angles), np.sin(angles)], 1)


def of(vectors):
    return vectors @ vectors.T


def assert_close(found, expected, rtol=1e-7, atol=1e-7):
    assert_allclose(found, expected, rtol=rtol, atol=atol)


def test_slerp_weights_of_a_right_angle():
    assert_close(slerp_weights(of(plane(0, 90)), 0.5), np.array([ROOT, ROOT]))
    thirty = np.array([math.sqrt(3) / 2, 0.5])
    assert_close(slerp_weights(of(plane(0, 90)), 1 / 3), thirty)


def test_slerp_keeps_the_norm_at_any_angle():
    for angle in (10, 60, 90, 150, 175):
        vectors = plane(20, 20 + angle)
        for t in (0.1, 0.5, 0.8):
            point = slerp_weights(of(vectors), t) @ vectors
            assert_close(point, plane(20 + t * angle)[0])


def test_slerp_is_linear_for_vectors_that_are_almost_parallel_or_opposite():
    expected = np.array([0.75, 0.25])
    for angle in (0, 1, 179.5, 180):
        assert_close(slerp_weights(of(plane(0, angle)), 0.25), expected)
    arc = np.sin(np.deg2rad(np.array([1.5, 0.5]))) / math.sin(math.radians(2))
    assert_close(slerp_weights(of(plane(0, 2)), 0.25, 1.0), arc)


def test_slerp_weights_of_many_rows_at_once():
    both = slerp_weights(np.stack([of(plane(0, 90)), of(plane(0, 0))]), 0.5)
    assert_close(both, np.array([[ROOT, ROOT], [0.5, 0.5]]))


def test_karcher_finds_the_mean_angle():
    vectors = plane(0, 30, 90)
    weights = karcher_weights(of(vectors), [1 / 3] * 3, iterations=50, tolerance=1e-12)
    assert_close(weights @ vectors, plane(40)[0], rtol=1e-9, atol=0)
    weights = karcher_weights(of(vectors), [0.5, 0.0, 0.5], iterations=50, tolerance=1e-12)
    assert_close(weights @ vectors, plane(45)[0], rtol=1e-9, atol=0)


def test_karcher_is_where_the_pulls_cancel():
    """In five dimensions: the tangents to all models add up to nothing at the mean."""
    vectors = np.random.default_rng(0).standard_normal((4, 5)) + 1
    shares = [0.1, 0.2, 0.3, 0.4]
    point = karcher_weights(of(vectors), shares, iterations=200, tolerance=1e-14) @ vectors
    point, units = point / np.linalg.norm(point), vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = np.clip(units @ point, -1, 1)
    angles = np.arccos(cosines)
    pulls = (units - cosines[:, None] * point) * (angles / np.sin(angles))[:, None]
    assert np.linalg.norm(np.array(shares) @ pulls) < 1e-9


def test_multislerp_meets_at_the_mean_direction_and_length():
    vectors = np.diag([1.0, 2.0, 3.0])
    point = multislerp_weights(of(vectors), [1 / 3] * 3) @ vectors
    assert_close(point, np.full(3, 2 / math.sqrt(3)))


@pytest.mark.parametrize(
    "mean", [lambda g: multislerp_weights(g, [0.5, 0.5]), lambda g: karcher_weights(g, [0.5, 0.5], 9, 1e-9)]
)
def test_opposite_directions_have_no_mean_and_zeros_give_zero(mean):
    with pytest.raises(NumericalError, match="cancel"):
        mean(of(plane(0, 180)))
    assert mean(np.zeros((2, 2))).tolist() == [0, 0]
