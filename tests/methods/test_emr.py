import pytest
import torch
from torch.testing import assert_close

import smelt
from by_hand import merge_rows


def test_the_shared_change_is_the_largest_of_those_that_agree():
    """4 + 2 - 5 = 1: positive, and of those the largest is 4, although -5 is larger."""
    assert merge_rows("emr", [4], [2], [-5]).tolist() == [4]


def test_a_task_gets_the_shared_change_where_it_agrees_at_its_own_size():
    """Shared (4, 3). The first agrees at the first entry only: 5 / 4 of it. The second everywhere: 5 / 7."""
    models = [4, -1], [2, 3]
    assert_close(merge_rows("emr", *models), torch.tensor([4.0, 3.0]))
    assert_close(merge_rows("emr", *models, task="m1"), torch.tensor([5.0, 0.0]))
    assert_close(merge_rows("emr", *models, task="m2"), torch.tensor([20 / 7, 15 / 7]))


def test_a_task_has_one_size_for_the_whole_model():
    """The second model moved by 1 + 3 where the shared change has 2 + 3: 4 / 5 of both tensors."""
    first = {"a": torch.tensor([2.0]), "b": torch.tensor([1.0])}
    second = {"a": torch.tensor([1.0]), "b": torch.tensor([3.0])}
    base = {"a": torch.zeros(1), "b": torch.zeros(1)}
    merged = smelt.merge({"cars": first, "birds": second}, base=base, method="emr", task="birds")
    assert_close(merged["a"], torch.tensor([1.6]))
    assert_close(merged["b"], torch.tensor([2.4]))


def test_alone_a_task_is_itself():
    assert_close(merge_rows("emr", [4, -1, 0], task="m1"), torch.tensor([4.0, -1.0, 0.0]))


def test_a_task_that_is_no_model_is_refused():
    with pytest.raises(smelt.RecipeError, match="did you mean 'm1'"):
        merge_rows("emr", [1], [2], task="m11")
