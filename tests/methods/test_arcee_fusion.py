import pytest
import torch
from torch.testing import assert_close

import smelt
from by_hand import merge_rows


def test_only_what_stands_out_is_taken_over():
    """In one row importance goes with |d|: 1 ... 8 and 100. Quartiles 3, 5, 7: the cut is 5 + 1.5 * 4 = 11."""
    changes = [0.01, 0.02, -0.03, 0.04, 0.05, 0.06, 0.07, -0.08, 1.0]
    merged = merge_rows("arcee_fusion", [2 + d for d in changes], base=[2] * 9)
    assert_close(merged, torch.tensor([2.0] * 8 + [3.0]))


def test_just_above_the_cut_stays_and_just_below_goes():
    """As above with 11.1 and with 10.9 in the last place."""
    small = [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08]
    for last, kept in ((0.111, True), (0.109, False)):
        merged = merge_rows("arcee_fusion", [*small, last])
        assert (float(merged[-1]) != 0) is kept
        assert not merged[:-1].any()


def test_rows_whose_distribution_moved_count_more():
    """Eight rows with changes of one size: only in the last do they change the softmax (up and down, not all alike)."""
    model = torch.full((8, 4), 0.5)
    model[-1] = torch.tensor([0.5, -0.5, 0.5, -0.5])
    merged = merge_rows("arcee_fusion", model.tolist())
    assert_close(merged[-1], model[-1])


def test_an_untouched_model_gives_the_base():
    assert merge_rows("arcee_fusion", [1, 2], base=[1, 2]).tolist() == [1, 2]


def test_one_model_exactly():
    with pytest.raises(smelt.RecipeError, match="exactly 1"):
        merge_rows("arcee_fusion", [1], [2])
