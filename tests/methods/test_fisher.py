import pytest
import torch
from torch.testing import assert_close

import smelt
from smelt.errors import NumericalError, RecipeError


def merged(first, second, known, **parameters):
    """Two models of one tensor, merged with the Fisher given for each."""
    models = {"cars": {"w": torch.tensor(first)}, "birds": {"w": torch.tensor(second)}}
    statistics = {name: {"w": torch.tensor(one)} for name, one in zip(models, known, strict=True)}
    return smelt.merge(models, method="fisher", statistics=statistics, **parameters)["w"]


def test_a_weight_counts_as_much_as_its_fisher():
    """(3*1 + 1*5) / 4 and (1*2 + 0*10) / 1; a floor of nothing."""
    got = merged([1.0, 2.0], [5.0, 10.0], ([3.0, 1.0], [1.0, 0.0]), floor=1e-12)
    assert_close(got, torch.tensor([2.0, 2.0]))


def test_the_floor_is_added_to_every_fisher():
    """(1 + 1) and (0 + 1): (2*3 + 1*6) / 3."""
    assert_close(merged([3.0], [6.0], ([1.0], [0.0]), floor=1.0), torch.tensor([4.0]))


def test_far_below_the_floor_the_merge_is_the_average_and_a_smaller_floor_brings_it_back():
    tiny = ([3e-12], [1e-12])
    assert_close(merged([1.0], [5.0], tiny), torch.tensor([3.0]), rtol=1e-5, atol=0)
    assert_close(merged([1.0], [5.0], tiny, floor=1e-20), torch.tensor([2.0]))


def test_a_fisher_of_any_size_keeps_its_proportions():
    for size in (1e-30, 1.0, 1e30):
        assert_close(merged([1e-5], [5e-5], ([3 * size], [size]), floor=1e-36), torch.tensor([2e-5]))


def test_equal_statistics_give_the_average():
    same = [0.5, 2e-9, 0.0]
    got = merged([1.0, 2.0, 3.0], [5.0, 6.0, 8.0], (same, same), balance="norm")
    assert_close(got, torch.tensor([3.0, 4.0, 5.5]))


def test_weights_multiply_the_fisher():
    """(2*1*1 + 1*2*5) / (2 + 2)."""
    got = merged([1.0], [5.0], ([1.0], [2.0]), weights={"cars": 2.0, "birds": 1.0}, floor=1e-12)
    assert_close(got, torch.tensor([3.0]))


def test_balance_divides_by_the_norm_over_all_tensors():
    """cars has the norm 5, birds 10. On `a`: 3/5 against 6/10, the mean; on `b`: 4/5 against 8/10, the mean too."""
    models = {
        name: {"a": torch.tensor([value]), "b": torch.tensor([value])} for name, value in (("x", 1.0), ("y", 3.0))
    }
    statistics = {
        "x": {"a": torch.tensor([3.0]), "b": torch.tensor([4.0])},
        "y": {"a": torch.tensor([6.0]), "b": torch.tensor([8.0])},
    }
    words = {"method": "fisher", "statistics": statistics, "floor": 1e-12}
    balanced, plain = smelt.merge(models, balance="norm", **words), smelt.merge(models, **words)
    assert_close([balanced["a"], balanced["b"]], [torch.tensor([2.0])] * 2)
    assert_close(plain["a"], torch.tensor([(3 * 1 + 6 * 3) / 9]))


def test_tensors_without_statistics_are_averaged_with_the_same_weights():
    models = {
        "x": {"w": torch.tensor([1.0]), "b": torch.tensor([1.0])},
        "y": {"w": torch.tensor([2.0]), "b": torch.tensor([5.0])},
    }
    statistics = {name: {"w": torch.ones(1)} for name in models}
    got = smelt.merge(models, method="fisher", statistics=statistics, weights={"x": 3, "y": 1})
    assert got["b"].tolist() == [2.0]


def test_a_fisher_of_zero_has_no_norm_to_balance_by():
    with pytest.raises(NumericalError, match="'w': the Fisher of birds is zero everywhere"):
        merged([1.0], [2.0], ([1.0], [0.0]), balance="norm")


def test_a_negative_fisher_is_refused_with_the_models_name():
    with pytest.raises(NumericalError, match="'w': the statistics of birds are negative"):
        merged([1.0, 1.0], [2.0, 2.0], ([1.0, 1.0], [1.0, -0.1]))


@pytest.mark.parametrize("words", [{"floor": 0.0}, {"weights": -1.0}, {"balance": "mean"}])
def test_values_that_make_no_mean_are_refused(words):
    with pytest.raises(RecipeError, match=f"fisher.{next(iter(words))}"):
        merged([1.0], [2.0], ([1.0], [1.0]), **words)
