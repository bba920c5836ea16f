import pytest
import torch
from torch.testing import assert_close

from smelt.ops.spectral import basis, noise, row_space, split, svd

SHAPES = [(1, 1), (1, 5), (5, 1), (2, 2), (3, 9), (9, 3), (30, 47), (47, 30)]


def random(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("shape", SHAPES)
def test_svd_agrees_with_lapack(shape):
    matrix = random(*shape)
    left, values, right = svd(matrix)
    assert_close(values, torch.linalg.svdvals(matrix.double()), rtol=1e-9, atol=0)
    assert_close((left * values) @ right, matrix.double(), rtol=0, atol=1e-12)
    identity = torch.eye(min(shape), dtype=torch.float64)
    assert_close(left.mT @ left, identity, rtol=0, atol=1e-9)
    assert_close(right @ right.mT, identity, rtol=0, atol=1e-9)


@pytest.mark.parametrize(("rows", "columns"), [(20, 33), (33, 20)])
def test_a_rank_deficient_matrix_has_only_as_many_directions_as_its_rank(rows, columns):
    matrix = random(rows, 3) @ random(3, columns)
    left, values, right = svd(matrix)
    assert values.shape == (3,)
    assert_close(((left * values) @ right).float(), matrix, rtol=0, atol=1e-5)
    assert_close(right @ right.mT, torch.eye(3, dtype=torch.float64), rtol=0, atol=1e-9)


def test_weak_directions_are_as_good_as_those_of_a_float32_svd():
    """A spectrum from 1 down to 1e-5: squared, that is 1e-10, far above the 1e-16 of float64."""
    basis = torch.linalg.qr(random(12, 12).double())[0]
    wanted = torch.logspace(0, -5, 12, dtype=torch.float64)
    matrix = (basis * wanted) @ basis.mT
    left, values, right = svd(matrix.float())
    assert_close(values, wanted, rtol=2e-2, atol=0)
    assert_close(left.mT @ left, torch.eye(12, dtype=torch.float64), rtol=0, atol=1e-6)
    assert_close(right @ right.mT, torch.eye(12, dtype=torch.float64), rtol=0, atol=1e-5)


def test_top_keeps_the_strongest_directions():
    left, values, right = svd(torch.diag(torch.tensor([1.0, 3.0, 2.0])), top=2)
    assert_close(values, torch.tensor([3.0, 2.0], dtype=torch.float64))
    assert_close((left * values) @ right, torch.diag(torch.tensor([0.0, 3.0, 2.0], dtype=torch.float64)))


def test_a_zero_or_empty_matrix_has_no_directions():
    for matrix in (torch.zeros(3, 4), torch.zeros(3, 0), torch.zeros(0, 3)):
        left, values, right = svd(matrix)
        assert left.shape == (matrix.shape[0], 0)
        assert values.shape == (0,)
        assert right.shape == (0, matrix.shape[1])


def test_noise_grows_with_the_stack():
    assert noise(torch.full((4, 1, 1), 2.0)) == 4 * noise(torch.ones(1, 1, 1))


def test_what_is_measured_stays_as_it_is():
    matrix = random(5, 4).double()
    before = matrix.clone()
    noise(matrix), svd(matrix), row_space(matrix[None])
    assert torch.equal(matrix, before)


def test_split_gives_a_basis_of_all_that_it_leaves_out():
    """diag(3, 0, 2): the strongest direction is e1, and e2 and e3 are left."""
    values, kept, rest = split(torch.diag(torch.tensor([9.0, 0.0, 4.0], dtype=torch.float64)), top=1)
    assert_close(values, torch.tensor([3.0], dtype=torch.float64))
    assert_close(kept.abs(), torch.tensor([[1.0], [0.0], [0.0]], dtype=torch.float64))
    assert_close(rest @ rest.mT, torch.diag(torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64)))


def test_a_basis_ends_at_the_noise_or_at_a_floor_that_is_given():
    lower = torch.diag(torch.tensor([1.0, 1e-4, 1e-15], dtype=torch.float64))
    assert_close(basis(lower)[0], torch.tensor([1.0, 1e-2], dtype=torch.float64))
    assert_close(basis(lower, floor=0.1)[0], torch.tensor([1.0], dtype=torch.float64))


@pytest.mark.parametrize("shape", [(2, 2, 7), (3, 6, 7), (3, 9, 4), (4, 1, 1)])
def test_row_space_spans_every_row(shape):
    stack = random(*shape)
    eigenvalues, vectors = row_space(stack)
    gram = torch.einsum("nij,nik->jk", stack.double(), stack.double())
    assert_close((vectors * eigenvalues) @ vectors.mT, gram, rtol=0, atol=1e-9)
    assert_close(stack.double() @ vectors @ vectors.mT, stack.double(), rtol=0, atol=1e-9)


def test_row_space_of_low_rank_matrices_is_small_on_every_path():
    """Rank 1 each, two models: two rows to span, whether the matrices are wide, tall or many."""
    for rows, columns in ((3, 40), (30, 40), (40, 30)):
        stack = random(2, rows, 1) @ random(2, 1, columns)
        eigenvalues, vectors = row_space(stack)
        assert vectors.shape == (columns, 2), (rows, columns)
        assert_close((stack.double() @ vectors @ vectors.mT).float(), stack, rtol=0, atol=1e-5)
        assert_close(eigenvalues.sum().float(), stack.square().sum())


def test_row_space_weighs_the_models():
    stack = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
    eigenvalues, vectors = row_space(stack, weights=torch.tensor([4.0, 9.0], dtype=torch.float64), rank=1)
    assert_close(eigenvalues, torch.tensor([9.0], dtype=torch.float64))
    assert_close(vectors.abs(), torch.tensor([[0.0], [1.0]], dtype=torch.float64))
