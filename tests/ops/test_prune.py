import math

import pytest
import torch
from torch.testing import assert_close

from folding import blocks_of, run_fold
from smelt.ops.order import Cut, Largest
from smelt.ops.prune import (
    DrawnMask,
    keep_above,
    keep_drawn,
    keep_rows,
    pack,
    ranks_in_rows,
    sorted_magnitudes,
    unpack,
    with_l1,
)

ROW = torch.tensor([1.0, -2.0, 3.0, -2.0, 2.0, 0.0])
BELOW_TWO = float(torch.nextafter(torch.tensor(2.0), torch.tensor(0.0)))


@pytest.mark.parametrize(
    ("ties", "kept"),
    [
        (None, [0, -2, 3, -2, 2, 0]),
        (0, [0, 0, 3, 0, 0, 0]),
        (1, [0, -2, 3, 0, 0, 0]),
        (2, [0, -2, 3, -2, 0, 0]),
        (3, [0, -2, 3, -2, 2, 0]),
        (9, [0, -2, 3, -2, 2, 0]),
    ],
)
def test_above_the_cut_all_stay_and_of_the_equal_ones_the_first(ties, kept):
    assert keep_above(ROW, Cut(2.0, BELOW_TWO, ties)).tolist() == kept


def test_the_result_may_go_into_a_tensor_that_is_there():
    out = torch.full_like(ROW, 7.0)
    for cut in (Cut(2.0, BELOW_TWO, 1), Cut(math.inf, math.inf, 0), Cut(0.0, 0.0, None)):
        assert keep_above(ROW, cut, out) is out
        assert torch.equal(out, keep_above(ROW, cut))


def test_an_infinite_cut_keeps_nothing_and_a_cut_at_zero_everything():
    assert not keep_above(ROW, Cut(math.inf, math.inf, 0)).any()
    assert torch.equal(keep_above(ROW, Cut(0.0, 0.0, None)), ROW)


def test_each_row_has_its_own_cut():
    stack = torch.tensor([[1.0, 2.0], [1.0, 2.0]])
    cuts = [Cut(2.0, BELOW_TWO, None), Cut(0.0, 0.0, None)]
    assert keep_rows(stack, cuts).tolist() == [[0, 2], [1, 2]]


def test_the_input_is_left_alone():
    row = ROW.clone()
    keep_above(row, Cut(2.0, BELOW_TWO, 1))
    assert torch.equal(row, ROW)


def test_ties_in_matrices_are_counted_row_after_row():
    matrix = torch.tensor([[2.0, 2.0], [2.0, 2.0]])
    assert keep_above(matrix, Cut(2.0, BELOW_TWO, 3)).tolist() == [[2, 2], [2, 0]]


def test_what_was_drawn_is_kept_and_restored_to_the_summed_magnitude_over_all_blocks():
    """Model one keeps 3 + 4 of 10, model two 8 of 10; a model that keeps nothing is multiplied by one."""
    stack = torch.tensor([[1.0, -2, 3, -4], [1.0, 1, 0, 8], [1.0, 1, 1, 1]])
    fold = DrawnMask(lambda block: (block.stack.abs() > 2).float())
    blocks = blocks_of([stack], 3)
    run_fold(fold, blocks)
    _bits, ratios = fold.at(blocks[0].place)
    assert ratios.tolist() == pytest.approx([10 / 7, 10 / 8, 1.0])
    kept = [keep_drawn(block.stack, fold.at(block.place)) for block in blocks]
    assert_close(torch.cat(kept, 1), torch.tensor([[0, 0, 30 / 7, -40 / 7], [0, 0, 0, 10], [0, 0, 0, 0]]))


def test_with_l1_prunes_first_and_measures_then():
    stack = torch.tensor([[1.0, -2, 3, -4]])
    fold = with_l1(Largest(lambda row, count: [2]), lambda s, cuts: keep_rows(s, [row[0] for row in cuts]))
    blocks = blocks_of([stack], 3)
    run_fold(fold, blocks)
    cuts, factors = fold.at(blocks[0].place)
    assert cuts[0][0].value == 3.0
    assert factors.tolist() == pytest.approx([10 / 7])


def test_ranks_count_the_smaller_magnitudes_of_the_row_and_half_of_the_entry_itself():
    ranks = ranks_in_rows(torch.tensor([[[3.0, -1.0, 2.0], [-10.0, 20.0, 0.0]]]))
    assert ranks.tolist() == [[[2.5, 0.5, 1.5], [1.5, 2.5, 0.5]]]


def test_equal_magnitudes_share_the_middle_of_their_ranks():
    assert ranks_in_rows(torch.tensor([[2.0, -2.0, 1.0, 2.0, -0.0, 0.0]])).tolist() == [[4.5, 4.5, 2.5, 4.5, 1, 1]]


def test_ranks_agree_with_counting_the_smaller_and_half_of_the_equal_ones():
    values = torch.randn(2, 5, 100, generator=torch.Generator().manual_seed(0)).round(decimals=1)
    others, own = values.abs()[..., None, :], values.abs()[..., :, None]
    assert torch.equal(ranks_in_rows(values), (others < own).sum(-1) + (others == own).sum(-1) / 2)


def test_magnitudes_are_sorted_row_by_row():
    stack = torch.tensor([[[3.0, -1.0, 2.0], [-10.0, 0.0, -0.0]]])
    assert sorted_magnitudes(stack).tolist() == [[[1, 2, 3], [0, 0, 10]]]
    assert stack.tolist() == [[[3, -1, 2], [-10, 0, 0]]]


@pytest.mark.parametrize("shape", [(1,), (8,), (2, 13), (3, 5, 7)])
def test_a_mask_is_packed_into_bits_and_comes_back(shape):
    mask = (torch.rand(shape, generator=torch.Generator().manual_seed(0)) < 0.5).float()
    bits = pack(mask)
    assert bits.nbytes == -(-mask.numel() // 8)
    assert torch.equal(unpack(bits, mask), mask)
