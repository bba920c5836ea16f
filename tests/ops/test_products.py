import torch
from torch.testing import assert_close

from smelt.ops import products
from smelt.ops.products import gram, image, mirrored, product

ONE = torch.tensor(1.0)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def in_small_pieces(monkeypatch) -> None:
    """Strips of a few rows and blocks of three columns, so that small matrices have several of both."""
    monkeypatch.setattr(products, "_STRIP", 20)
    monkeypatch.setattr(products, "_BLOCK", 3)


def test_a_gram_matrix_is_right_in_its_lower_triangle(monkeypatch):
    in_small_pieces(monkeypatch)
    for matrix in (random(9, 7), random(7, 9).mT):
        exact = matrix.double()
        assert_close(gram(matrix).tril(), (exact.mT @ exact).tril(), rtol=0, atol=1e-13)


def test_a_stack_stands_for_its_sum(monkeypatch):
    in_small_pieces(monkeypatch)
    stack, vectors = random(3, 9, 7), random(7, 2).double()
    total = stack.double().sum(0)
    before = stack.clone()
    assert_close(gram(stack).tril(), (total.mT @ total).tril(), rtol=0, atol=1e-12)
    assert_close(image(stack, vectors), total @ vectors, rtol=0, atol=1e-12)
    assert torch.equal(stack, before)


def test_a_float64_stack_is_not_changed():
    stack = random(2, 3, 2).double()
    before = stack.clone()
    gram(stack)
    assert torch.equal(stack, before)


def test_mirrored_fills_the_upper_triangle():
    lower = torch.tensor([[1.0, 9.0], [2.0, 3.0]])
    assert torch.equal(mirrored(lower), torch.tensor([[1.0, 2.0], [2.0, 3.0]]))


def test_a_product_that_does_not_cancel_is_right_to_float32(monkeypatch):
    in_small_pieces(monkeypatch)
    left, right, out = random(40, 30).double(), random(30, 8).double(), torch.empty(8, 40)
    product(left, right, out.mT, gain=ONE)
    wanted = left @ right
    assert (out.mT - wanted).norm() <= 1e-6 * wanted.norm()


def test_a_product_that_cancels_keeps_its_digits():
    """(1e6 + 1) - 1e6, with a third that float32 has no digits for."""
    left = torch.tensor([[1e6 + 1 / 3, 1e6]], dtype=torch.float64)
    right = torch.tensor([[1.0], [-1.0]], dtype=torch.float64)
    assert_close(product(left, right, torch.empty(1, 1), gain=1e6 * ONE), torch.tensor([[1 / 3]]))
