import math

import pytest
import torch
from torch.testing import assert_close

import smelt
from by_hand import merge_rows

OPPOSED = {"a": [1.0, 0.0], "b": [-1.0, 0.0]}


def at(degrees, length=1.0):
    angle = math.radians(degrees)
    return [length * math.cos(angle), length * math.sin(angle)]


def test_the_mean_of_directions_in_a_plane_is_the_mean_angle():
    """0, 30 and 90 degrees: 40."""
    assert_close(merge_rows("karcher", at(0), at(30), at(90)), torch.tensor(at(40)), rtol=1e-4, atol=0)


def test_weights_pull_along_the_arc():
    """0 and 90 degrees as 1 : 2 meet at 60."""
    assert_close(merge_rows("karcher", at(0), at(90), weights=[1, 2]), torch.tensor(at(60)), rtol=1e-4, atol=0)


def test_the_length_is_the_mean_length():
    assert_close(merge_rows("karcher", at(0, 2.0), at(90, 4.0)), torch.tensor(at(45, 3.0)), rtol=1e-5, atol=0)


def test_two_models_of_one_length_are_slerp_halfway():
    first, second = [2.0, 1.0, 2.0], [1.0, -2.0, 2.0]
    assert_close(merge_rows("karcher", first, second), merge_rows("slerp", first, second), rtol=1e-5, atol=1e-6)


def test_three_axes_give_the_diagonal():
    merged = merge_rows("karcher", [1, 0, 0], [0, 1, 0], [0, 0, 1])
    assert_close(merged, torch.full((3,), 1 / math.sqrt(3)))


def test_zero_tensors_have_no_direction_and_no_say_in_it():
    """The direction is that of the other one, the length the mean of 0 and 2."""
    assert_close(merge_rows("karcher", [0, 0], [2, 0]), torch.tensor([1.0, 0.0]))
    assert merge_rows("karcher", [0, 0], [0, 0]).tolist() == [0, 0]


def test_negative_weights_are_refused():
    with pytest.raises(smelt.RecipeError, match="positive"):
        merge_rows("karcher", [1, 0], [0, 1], weights=[2, -1])


@pytest.mark.parametrize("method", ["karcher", "multislerp"])
def test_the_tensor_whose_directions_cancel_is_named(method):
    models = {name: {"fine": torch.ones(2), "opposed": torch.tensor(row)} for name, row in OPPOSED.items()}
    with pytest.raises(smelt.NumericalError, match=r"^'opposed': the models' directions cancel out"):
        smelt.merge(models, method=method)


@pytest.mark.parametrize("method", ["karcher", "multislerp"])
def test_the_tensor_whose_weights_are_refused_is_named(method):
    models = {name: {"fine": torch.ones(2), "odd": torch.ones(2)} for name in OPPOSED}
    weights = {"a": 1.0, "b": [{"filter": "odd", "value": -1.0}, {"value": 1.0}]}
    with pytest.raises(smelt.RecipeError, match=rf"^'odd': {method}"):
        smelt.merge(models, method=[(method, {"weights": weights})])
