"""What goes between a worker and its driver: units of a plan, parts of folds, and the order of joining them."""

from __future__ import annotations

import math
import random
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from smelt.engine.cluster.fold_total import FoldTotal
from smelt.engine.cluster.parcels import fold_state, from_text, restore_fold, to_text
from smelt.engine.cluster.units import cut, unit_size
from smelt.engine.plan.plan import Item, RunStage, Span, Tap
from smelt.formats.source import MemorySource, TensorInfo
from smelt.methods import stages
from smelt.ops.block import Block, Place
from smelt.ops.bracket import BracketCounts
from smelt.ops.fold import Chain, Sum
from smelt.ops.order import Inside, Largest

SPAN = 100


def item(number: int, count: int, method: str = "average") -> Item:
    """A tensor of so many float32 numbers in two models."""
    source = MemorySource("made up", {"t": torch.zeros(count)})
    stage = stages[method]
    run = RunStage(
        stage, 0, 0, {p.name: [p.default] * 2 if p.per_model else p.default for p in stage.parameters.values()}
    )
    taps = (Tap("a", source, "t"), Tap("b", source, "t"))
    return Item(f"t{number}", number, TensorInfo("F32", (count,)), 0.0, None, taps, (run,))


def spans(one: Item) -> list[Span]:
    count = one.info.count
    return [Span(start, min(start + SPAN, count), SPAN) for start in range(0, count, SPAN)]


def words(units: Any) -> list[list[tuple[int, int, int]]]:
    return [[(one.item, one.first, one.stop) for one in unit] for unit in units]


def test_neighbours_are_together_and_large_tensors_are_cut_between_spans() -> None:
    """Eight bytes an element: a unit of 1,600 has 200 elements, which are two spans."""
    items = [item(0, 50), item(1, 150), item(2, 10), item(3, 450), item(4, 20)]
    assert words(cut(items, spans, 1600)) == [
        [(0, 0, 1), (1, 0, 2)],
        [(2, 0, 1)],
        [(3, 0, 2)],
        [(3, 2, 4)],
        [(3, 4, 5), (4, 0, 1)],
    ]


def test_a_tensor_with_a_fold_of_its_own_is_never_cut() -> None:
    assert words(cut([item(0, 450, "model_stock")], spans, 1600)) == [[(0, 0, 5)]]


def test_there_are_about_512_units_none_of_them_tiny_or_huge() -> None:
    assert unit_size(3_246_827_110_400) == 1 << 30
    assert unit_size(100 << 30) == 200 << 20
    assert unit_size(1 << 20) == 32 << 20


@pytest.mark.parametrize("seed", range(10))
def test_parts_are_joined_as_one_process_joins_them_whatever_comes_first(seed: int) -> None:
    """Numbers of many digits: most other orders of additions give another last bit."""
    draw = random.Random(seed)
    fold = Sum(lambda block: block.stack, lambda total: total, scope="model")
    tensors = [[draw.gauss(0, 1) for _ in range(draw.randrange(1, 9))] for _ in range(7)]
    expected = reduce(fold.join, [reduce(fold.join, spans_of) for spans_of in tensors])
    flat = [(first == 0, part) for spans_of in tensors for first, part in enumerate(spans_of)]
    cuts = sorted({0, len(flat), *draw.sample(range(len(flat)), 6)})
    jobs = [flat[start:stop] for start, stop in pairwise(cuts)]
    order = list(range(len(jobs)))
    draw.shuffle(order)
    total = FoldTotal(fold)
    for number in order:
        total.add(number, jobs[number])
    assert total.value == expected


def test_plain_data_arrays_and_objects_come_back_bit_for_bit() -> None:
    bits = np.array([1, 2, 70000], np.uint32)
    given = [
        {"nan": math.nan, "zero": -0.0, "large": 1 << 70, (3, 4): None, "text": "ü"},
        (np.float64(0.1), np.arange(6, dtype=np.int16).reshape(2, 3), np.zeros((0, 3), np.float32)),
        torch.tensor([[1.5, -math.inf]], dtype=torch.float64),
        BracketCounts(3, 1, [((0, 5), 2)], [((0, 5), bits)], []),
        Inside(np.array([7, 7, 9], np.uint16), (4, 100)),
    ]
    got = from_text(to_text(given))
    assert repr(got[0]) == repr(given[0])
    assert got[1][0] == given[1][0]
    assert type(got[1]) is tuple
    for left, right in zip(got[1][1:], given[1][1:], strict=True):
        assert (left.dtype, left.shape, left.tobytes()) == (right.dtype, right.shape, right.tobytes())
    assert torch.equal(got[2], given[2])
    assert (got[3].above, got[3].top, got[3].held) == (3, [((0, 5), 2)], 3)
    assert got[3].inside[0][1].tobytes() == bits.tobytes()
    assert got[4].places[0][1].tolist() == [7, 7, 9]
    got[4].add(Inside(np.array([1], np.uint16), (5, 0)), 100)  # it works on as before
    assert got[4].held == 4


def block(*numbers: float) -> Block:
    values = torch.tensor([numbers])
    return Block(values, None, Place("t", 0, values.shape[1:], 0, len(numbers), 0.0, ("a",), None))


def test_a_fold_goes_on_in_another_process_where_it_was() -> None:
    """The second largest of four, and the mean square of what is at least as large; the functions do not travel."""

    def made() -> Chain:
        first = Largest(lambda row, count: [2], scope="model")
        return Chain(first, lambda at: Sum(lambda one: (one.stack**2).sum(1), lambda total: total / 4, scope="model"))

    one, other, seen = made(), made(), block(1.0, -3.0, 2.0, 0.5)
    while one.wants_pass:
        restore_fold(other, from_text(to_text(fold_state(one))))
        assert other.wants_pass
        one.absorb(from_text(to_text(other.look(seen))))
    restore_fold(other, from_text(to_text(fold_state(one))))
    (((cut_of_a,),), mean) = other.at(seen.place)
    assert (cut_of_a.value, mean.tolist()) == (2.0, [3.5625])
