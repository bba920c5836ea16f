"""Corners of methods that the comparison with mergekit brought to light, in numbers to check by hand."""

import pytest
import torch

from by_hand import merge_rows
from smelt.errors import RecipeError


def test_a_model_with_a_negative_weight_may_win_the_election_alone():
    """w d = (1 * 1, -0.5 * 8) = (1, -4): minus wins, and -4 / -0.5 = 8 is the second model's own change."""
    assert merge_rows("ties", [1], [8], density=1.0, weights=[1.0, -0.5]).tolist() == [8]


def test_agreeing_weights_that_cancel_out_leave_the_sum():
    """w d = (2, 1) agree, and 1 - 1 = 0 divides nothing."""
    assert merge_rows("ties", [2], [-1], density=1.0, weights=[1.0, -1.0]).tolist() == [3]


def test_nearswap_at_zero_is_the_base():
    assert merge_rows("nearswap", [9.0, -9.0], base=[7.0, 8.0], t=0.0).tolist() == [7, 8]
    with pytest.raises(RecipeError, match=r"nearswap.t.*-1"):
        merge_rows("nearswap", [9.0], t=-1.0)


def test_a_floor_makes_small_changes_seem_to_agree_less():
    """Equal changes of norm 1e-4: the cosine is 1, and 1e-8 / 1e-6 = 0.01 under the floor; t = 0.02 / 1.01."""
    change = [1e-4, 0.0]
    assert merge_rows("model_stock", change, change).tolist() == pytest.approx(change)
    under = merge_rows("model_stock", change, change, floor=1e-6)
    assert under.tolist() == pytest.approx([1e-4 * 0.02 / 1.01, 0])


def test_entries_that_no_model_changes_are_not_there_to_be_selected():
    """Of the two positions that vary, half is one; half of all four would be two."""
    assert merge_rows("sce", [4, 2, 0, 0], [0, 0, 0, 0], density=0.5).tolist() == [4, 0, 0, 0]


def test_the_divergence_of_almost_equal_rows_is_not_lost_in_rounding():
    """Changes of 1e-5 diverge by 5e-11 in a row; float32 is off by 1e-9. The choice is that of float64."""
    random = torch.Generator().manual_seed(0)
    base = torch.randn(16, 64, generator=random) * 0.02
    model = base + torch.randn(16, 64, generator=random) * 1e-5
    p, q = (torch.softmax(x.double(), -1) + 1e-8 for x in (model, base))
    importance = (model - base).abs().double() * (p * (p / q).log()).sum(-1, keepdim=True)
    lower, median, upper = (importance.flatten().sort().values[int(share * 1023)] for share in (0.25, 0.5, 0.75))
    chosen = importance >= median + 1.5 * (upper - lower)
    merged = merge_rows("arcee_fusion", model.tolist(), base=base.tolist())
    assert torch.equal(merged != base, chosen & (model != base))
