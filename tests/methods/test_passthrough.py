import pytest
import torch

import smelt
from by_hand import merge_rows


def test_the_model_comes_through_as_it_is():
    assert merge_rows("passthrough", [1, 2], base=[9, 9]).tolist() == [1, 2]


def test_scale_multiplies_the_weights():
    assert merge_rows("passthrough", [1, -2], base=[9, 9], scale=0.5).tolist() == [0.5, -1]


def test_scale_may_differ_by_tensor():
    model = {"a.weight": torch.ones(1), "b.weight": torch.ones(1)}
    merged = smelt.merge({"m": model}, method="passthrough", scale=[{"filter": "a.*", "value": 2.0}, {"value": 0.5}])
    assert merged["a.weight"].item() == 2
    assert merged["b.weight"].item() == 0.5


def test_one_model_exactly():
    with pytest.raises(smelt.RecipeError, match="exactly 1"):
        merge_rows("passthrough", [1], [2])
