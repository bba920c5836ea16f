import pytest
import torch
from torch.testing import assert_close

import smelt
from by_hand import merge_rows


def test_the_mean_of_the_models_without_the_base():
    assert merge_rows("average", [1, 2], [3, 6], base=[100, 100]).tolist() == [2, 4]


def test_no_base_is_needed():
    models = [{"w": torch.tensor([1.0])}, {"w": torch.tensor([4.0])}]
    assert smelt.merge(models)["w"].tolist() == [2.5]


def test_weights_are_shares():
    """(3 * 1 + 1 * 5) / 4 = 2."""
    assert merge_rows("average", [1], [5], weights=[3, 1]).tolist() == [2]
    assert merge_rows("average", [1], [5], weights=[0.3, 0.1]).tolist() == [2]


def test_weights_by_name_follow_their_model():
    weights = {"cars": 3, "birds": 1}
    assert merge_rows("average", [1], [5], names=["cars", "birds"], weights=weights).tolist() == [2]
    assert merge_rows("average", [5], [1], names=["birds", "cars"], weights=weights).tolist() == [2]


def test_without_normalize_it_is_the_weighted_sum():
    assert merge_rows("average", [1], [5], weights=[3, 1], normalize=False).tolist() == [8]


def test_a_negative_weight_extrapolates():
    """2 * 3 - 1 * 1 = 5, on the line through both beyond the first."""
    assert merge_rows("average", [3], [1], weights=[2, -1]).tolist() == [5]


def test_weights_that_cancel_are_refused():
    with pytest.raises(smelt.RecipeError, match="sum to zero"):
        merge_rows("average", [1], [5], weights=[1, -1])


def test_half_precision_is_summed_in_float32():
    """256 + 1 + 1 + 1 + 1 in bfloat16 would stay 256 at every addition; the mean of the five is 52."""
    models = [{"w": torch.tensor([value], dtype=torch.bfloat16)} for value in (256, 1, 1, 1, 1)]
    assert_close(smelt.merge(models)["w"], torch.tensor([52.0], dtype=torch.bfloat16), rtol=0, atol=0)
