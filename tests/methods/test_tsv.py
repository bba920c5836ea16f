import math

import torch
from torch.testing import assert_close

from smelt.methods.subspace.tsv import tsv

E1, E2 = torch.diag(torch.tensor([1.0, 0.0])), torch.diag(torch.tensor([0.0, 1.0]))


def test_orthogonal_directions_are_added():
    assert_close(tsv(torch.stack([3 * E1, 2 * E2])), torch.diag(torch.tensor([3.0, 2.0])))


def test_each_model_keeps_its_share_of_directions():
    """Two models and two directions: one each, so the weaker of diag(3, 1) and of diag(1, 5) is dropped."""
    deltas = torch.stack([torch.diag(torch.tensor([3.0, 1.0])), torch.diag(torch.tensor([1.0, 5.0]))])
    assert_close(tsv(deltas), torch.diag(torch.tensor([3.0, 5.0])))


def test_a_single_model_comes_back():
    delta = torch.tensor([[1.0, 2.0, 3.0], [0.0, -1.0, 5.0]])
    assert_close(tsv(delta[None]), delta)


def test_directions_that_interfere_are_turned_apart():
    """Left directions at 0 and 60 degrees become -15 and 75; the right ones e1, e2 are orthogonal already."""
    second = torch.tensor([[0.0, 0.5], [0.0, math.sqrt(3) / 2]])
    angle = torch.deg2rad(torch.tensor([-15.0, 75.0]))
    expected = torch.stack([angle.cos(), angle.sin()]) * torch.tensor([4.0, 2.0])
    assert_close(tsv(torch.stack([4 * E1, 2 * second])), expected)


def test_more_models_than_directions_keep_one_each():
    assert_close(tsv(torch.tensor([[[1.0]], [[2.0]], [[3.0]]])), torch.tensor([[2.0]]))


def test_copies_give_their_strongest_directions_once():
    delta = torch.diag(torch.tensor([3.0, 1.0]))
    assert_close(tsv(torch.stack([delta, delta])), 3 * E1)


def test_scale_multiplies_the_result():
    assert_close(tsv(torch.stack([3 * E1, 2 * E2]), scale=0.5), torch.diag(torch.tensor([1.5, 1.0])))


def test_an_untouched_model_adds_nothing():
    assert_close(tsv(torch.stack([3 * E1, torch.zeros(2, 2)])), 3 * E1)
    assert torch.equal(tsv(torch.zeros(3, 2, 4)), torch.zeros(2, 4))


def test_the_order_of_models_does_not_matter():
    deltas = torch.randn(3, 7, 5, generator=torch.Generator().manual_seed(1))
    before = deltas.clone()
    assert_close(tsv(deltas), tsv(deltas.flip(0)))
    assert torch.equal(deltas, before)
