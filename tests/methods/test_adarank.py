import torch
from torch.testing import assert_close

import smelt
from smelt.methods.subspace.adarank import adarank

FIRST, SECOND = torch.diag(torch.tensor([3.0, 1.0])), torch.diag(torch.tensor([1.0, 5.0]))


def test_components_are_kept_by_descending_singular_value():
    """The larger of diag(3, 1) is at the top, of diag(1, 5) at the bottom."""
    got = adarank(torch.stack([FIRST, SECOND]), torch.tensor([[1.0, 0.0], [1.0, 0.0]]), scale=1.0)
    assert_close(got, torch.diag(torch.tensor([3.0, 5.0])))


def test_scale_and_parts_of_a_component():
    got = adarank(torch.stack([FIRST, SECOND]), torch.tensor([[0.5, 1.0], [0.0, 0.0]]), scale=2.0)
    assert_close(got, torch.diag(torch.tensor([3.0, 2.0])))


def test_all_components_are_task_arithmetic_whatever_the_shape():
    draw = torch.Generator().manual_seed(0)
    for rows, columns in ((5, 3), (3, 5)):
        deltas = torch.randn(3, rows, columns, generator=draw)
        assert_close(adarank(deltas, torch.ones(3, 3), scale=0.3), 0.3 * deltas.sum(0))


def test_no_components_leave_the_base():
    deltas = torch.stack([FIRST, SECOND])
    assert not bool(adarank(deltas, torch.zeros(2, 2)).any())


def test_a_layer_of_low_rank_ignores_the_components_it_does_not_have():
    flat = torch.tensor([[[2.0, 2.0], [2.0, 2.0]]])
    assert_close(adarank(flat, torch.tensor([[1.0, 1.0]]), scale=1.0), flat[0])
    assert not bool(adarank(torch.zeros(1, 2, 2), torch.ones(1, 2)).any())


def test_other_tensors_are_added_up_under_the_same_scale():
    models = {name: {"w": FIRST, "b": torch.tensor([value])} for name, value in (("x", 2.0), ("y", 6.0))}
    base = {"w": torch.zeros(2, 2), "b": torch.tensor([1.0])}
    kept = {name: {"w": torch.tensor([1.0, 0.0])} for name in models}
    got = smelt.merge(models, base=base, method="adarank", statistics=kept, scale=0.5)
    assert_close(got["w"], torch.diag(torch.tensor([3.0, 0.0])))
    assert got["b"].tolist() == [1.0 + 0.5 * (1.0 + 5.0)]
