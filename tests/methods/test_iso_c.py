import torch
from torch.testing import assert_close

from smelt.methods.subspace.iso_c import iso_c


def test_the_spectrum_of_the_sum_becomes_flat():
    """The sum is diag(5, -1): singular values 5 and 1, mean 3, and the sign stays."""
    deltas = torch.stack([torch.diag(torch.tensor([4.0, 0.0])), torch.diag(torch.tensor([1.0, -1.0]))])
    assert_close(iso_c(deltas), torch.diag(torch.tensor([3.0, -3.0])))
    assert_close(iso_c(deltas, scale=0.5), torch.diag(torch.tensor([1.5, -1.5])))


def test_an_already_flat_model_comes_back():
    rotation = torch.tensor([[0.6, -0.8], [0.8, 0.6]])
    assert_close(iso_c(2 * rotation[None]), 2 * rotation)


def test_agrees_with_the_definition_on_full_rank_matrices():
    for rows, columns in ((4, 9), (9, 4)):
        deltas = torch.randn(3, rows, columns, generator=torch.Generator().manual_seed(0))
        left, values, right = torch.linalg.svd(deltas.sum(0), full_matrices=False)
        assert_close(iso_c(deltas), values.mean() * left @ right, rtol=1e-4, atol=1e-5)


def test_directions_the_sum_lacks_stay_zero():
    """A rank-one sum has one singular value, which is its own mean."""
    delta = torch.outer(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, -1.0]))
    assert_close(iso_c(delta[None]), delta)


def test_models_that_cancel_give_zero():
    delta = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(iso_c(torch.stack([delta, -delta])), torch.zeros(3, 4))
    assert torch.equal(iso_c(torch.zeros(2, 3, 4)), torch.zeros(3, 4))


def test_the_order_of_models_does_not_matter_even_without_full_rank():
    generator = torch.Generator().manual_seed(1)
    deltas = torch.randn(3, 8, 1, generator=generator) @ torch.randn(3, 1, 6, generator=generator)
    assert_close(iso_c(deltas), iso_c(deltas.flip(0)))
