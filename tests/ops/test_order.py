from functools import reduce

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from folding import blocks_of, largest_by_sorting, run_fold
from smelt.ops.block import Place
from smelt.ops.bracket import BracketCounts, SamplePlan
from smelt.ops.order import Cut, Largest, keep_shares, share
from smelt.ops.prune import keep_rows


def kept_by(fold, tensors, size, rank=0):
    """What the fold's cut keeps of every tensor, and put together."""
    blocks = blocks_of(tensors, size)
    run_fold(fold, blocks)
    parts = [keep_rows(block.stack, [cuts[rank] for cuts in fold.at(block.place)]) for block in blocks]
    return torch.cat(parts, dim=1)


def test_the_share_of_a_count_is_as_written_in_decimal():
    """0.29 * 100 is 28.999999999999996 in binary."""
    assert share(100, 0.29) == 29
    assert share(10, 0.99) == 9
    assert share(7, 1.0) == 7
    assert share(3, 0.2) == 0


def test_the_cut_is_the_value_of_the_last_that_stays():
    fold = Largest(lambda row, count: [2])
    blocks = blocks_of([torch.tensor([[1.0, -5.0, 3.0, 4.0]])], 2)
    run_fold(fold, blocks)
    ((cut,),) = fold.at(blocks[0].place)
    assert cut.value == 4.0
    assert cut.below == float(torch.nextafter(torch.tensor(4.0), torch.tensor(0.0)))
    assert cut.ties is None


def test_two_passes_are_enough_unless_more_ties_than_can_be_held_must_be_counted(monkeypatch):
    distinct, tied = torch.arange(1.0, 11)[None], torch.ones(1, 10)
    assert run_fold(Largest(lambda row, count: [5]), blocks_of([distinct], 3)) == 2
    assert run_fold(Largest(lambda row, count: [5]), blocks_of([tied], 3)) == 2
    monkeypatch.setattr("smelt.ops.order._HELD", 9)
    assert run_fold(Largest(lambda row, count: [5]), blocks_of([tied], 3)) == 3
    assert run_fold(Largest(lambda row, count: [5], exact=False), blocks_of([tied], 3)) == 2
    assert run_fold(Largest(lambda row, count: [10]), blocks_of([tied], 3)) == 2


@pytest.mark.parametrize("held", [0, 1 << 20])
def test_ties_held_in_the_second_pass_and_counted_in_a_third_give_the_same_cut(held, monkeypatch):
    monkeypatch.setattr("smelt.ops.order._HELD", held)
    row = torch.randn(2, 1000, generator=torch.Generator().manual_seed(0)).mul(8).round().div(8)
    kept = kept_by(Largest(lambda r, c: [137]), [row], 64)
    assert torch.equal(kept[0], largest_by_sorting(row[0], 137))
    assert torch.equal(kept[1], largest_by_sorting(row[1], 137))


@pytest.mark.parametrize(("held", "steps"), [(100, ["bracket"]), (2, ["bracket", "ties"])])
def test_ties_in_a_bracket_that_could_not_be_held_are_counted_in_one_more_pass(held, steps, monkeypatch):
    """Neighbours of 1 in float32; four of nine may stay, so two of the three that are equal: the first two by place."""
    one = int(np.float32(1).view(np.uint32))
    rows = [one + np.array(block, np.uint32) for block in ([1, 9, 3], [3, 0, 2], [8, 3, 1])]
    monkeypatch.setattr("smelt.ops.bracket._SAMPLE", 4)
    monkeypatch.setattr("smelt.ops.order.bracket", lambda sample, rank: (one, one + 6))
    monkeypatch.setattr("smelt.ops.order.plan_sample", lambda *sizes: SamplePlan(0.5, held, 100, 0))
    fold = Largest(lambda row, count: [4])
    fold.sampled(9)
    fold.absorb([BracketCounts(inside=[((0, 0), rows[0])])])
    seen = []
    while fold.wants_pass:
        seen.append(fold.step)
        if fold.step == "bracket":
            parts = [[_around(row, one, one + 6, (0, 3 * n))] for n, row in enumerate(rows)]
        else:
            parts = [[[((0, 3 * n), int((row == one + 3).sum()))]] for n, row in enumerate(rows)]
        fold.absorb(reduce(fold.join, parts))
    assert seen == steps
    cuts = [fold.at(Place("t", 0, (9,), 3 * n, 3 * n + 3, 0.0, ("m",)))[0][0] for n in range(3)]
    assert [cut.ties for cut in cuts] == [None, None, 0]
    assert {cut.value for cut in cuts} == {float(np.uint32(one + 3).view(np.float32))}


def _around(row, low, high, where):
    """What a pass over a block meets of a bracket."""
    inside = row[(row > low) & (row < high)]
    top, bottom = int((row == high).sum()), int((row == low).sum())
    return BracketCounts(int((row > high).sum()), 0, [(where, top)], [(where, inside)], [(where, bottom)])


def test_of_equal_entries_the_first_in_the_order_of_places_stay():
    tensors = [torch.ones(1, 3), torch.ones(1, 3)]
    kept = kept_by(Largest(lambda row, count: [4], scope="model"), tensors, 2)
    assert kept.tolist() == [[1, 1, 1, 1, 0, 0]]


def test_the_order_in_which_parts_arrive_does_not_matter():
    """Threads finish in any order; the engine joins in order, but counts of ties carry their places anyway."""
    blocks = blocks_of([torch.ones(1, 10)], 2)
    fold = Largest(lambda row, count: [5])
    while fold.wants_pass:
        total = None
        for block in reversed(blocks):
            part = fold.look(block)
            total = part if total is None else fold.join(part, total)
        fold.absorb(total)
    kept = torch.cat([keep_rows(b.stack, [cuts[0] for cuts in fold.at(b.place)]) for b in blocks], 1)
    assert kept.tolist() == [[1] * 5 + [0] * 5]


@pytest.mark.parametrize("count", [0, 1, 999, 1000])
def test_none_one_all_but_one_and_all(count):
    row = torch.randn(1, 1000, generator=torch.Generator().manual_seed(0))
    kept = kept_by(Largest(lambda r, c: [count]), [row], 64)
    assert torch.equal(kept[0], largest_by_sorting(row[0], count))


def test_rank_none_keeps_nothing_whatever_the_values():
    fold = Largest(lambda row, count: [0])
    blocks = blocks_of([torch.tensor([[float("3e38"), 1.0]])], 2)
    run_fold(fold, blocks)
    assert fold.at(blocks[0].place) == [[Cut(float("inf"), float("inf"), 0)]]


def test_zeros_do_not_take_the_place_of_changes():
    """Three of eight entries are changes; asking for five gives those three (and two zeros, which are nothing)."""
    row = torch.tensor([[0.0, 0, -2, 0, 1, 0, 3, 0]])
    assert kept_by(Largest(lambda r, c: [5]), [row], 3).tolist() == row.tolist()


def test_several_ranks_are_found_in_the_same_passes():
    row = torch.randn(1, 500, generator=torch.Generator().manual_seed(1)).round(decimals=1)
    for position, count in enumerate((3, 250, 499)):
        kept = kept_by(Largest(lambda r, c: [3, 250, 499]), [row], 37, rank=position)
        assert torch.equal(kept[0], largest_by_sorting(row[0], count))


def test_every_row_has_a_rank_of_its_own():
    rows = torch.randn(3, 200, generator=torch.Generator().manual_seed(2))
    kept = kept_by(Largest(lambda row, count: [10 * (row + 1)]), [rows], 64)
    assert (kept != 0).sum(1).tolist() == [10, 20, 30]


def test_extreme_magnitudes_are_told_apart():
    """Subnormals, neighbouring floats and the largest float."""
    one = torch.tensor(1.0)
    above = torch.nextafter(one, torch.tensor(2.0))
    row = torch.stack([torch.tensor(1e-45), one, torch.tensor(3.4e38), above, torch.tensor(2e-45)])[None]
    for count in range(6):
        kept = kept_by(Largest(lambda r, c, n=count: [n]), [row], 2)
        assert torch.equal(kept[0], largest_by_sorting(row[0], count))


def test_keep_shares_is_nothing_where_everything_stays():
    assert keep_shares([1.0, 1.0], "model") is None
    assert keep_shares([1.0, 0.5], "model") is not None


def test_in_a_tensor_at_least_one_entry_stays_but_over_the_model_none_has_to():
    tensors = [torch.tensor([[1.0, 2.0, 3.0]])]
    assert kept_by(keep_shares([0.2], "tensor"), tensors, 2).tolist() == [[0, 0, 3]]
    assert kept_by(keep_shares([0.2], "model"), tensors, 2).tolist() == [[0, 0, 0]]


few_values = st.sampled_from([0.0, -0.0, 1.0, -1.0, 1.0000001, 0.5, -3.0, 1e-30])
any_values = st.floats(width=32, allow_nan=False, allow_infinity=False)
tensors = st.lists(st.lists(few_values | any_values, min_size=1, max_size=40), min_size=1, max_size=4)


@settings(max_examples=150, deadline=None)
@given(tensors, st.integers(1, 50), st.data())
def test_over_any_tensors_and_blocks_it_is_what_sorting_gives(values, size, data):
    rows = [torch.tensor([numbers]) for numbers in values]
    whole = torch.cat(rows, 1)[0]
    count = data.draw(st.integers(0, len(whole)))
    kept = kept_by(Largest(lambda r, c: [count], scope="model"), rows, size)[0]
    assert torch.equal(kept, largest_by_sorting(whole, count))
