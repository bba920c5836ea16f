"""tsv, iso_c and iso_cts beside the same methods written out with whole SVDs in float64, to 1e-6 of their length.

The methods themselves never make such an SVD: they have eigenvectors of Gram matrices, factors that are never written
out, and products in float32 where these lose nothing.
"""

import pytest
import torch

from smelt.methods.subspace.iso_c import iso_c
from smelt.methods.subspace.iso_cts import iso_cts
from smelt.methods.subspace.tsv import tsv
from smelt.ops.order import share

EPS = 4 * 2.0**-23


def svd(matrix, top=None, floor=None):
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    floor = EPS * matrix.norm() if floor is None else floor
    kept = int((values[:top] > floor).sum())
    return left[:, :kept], values[:kept], right[:kept]


def polar(matrix):
    left, _, right = svd(matrix)
    return left @ right


def tsv_written_out(deltas):
    parts = [svd(delta, max(1, min(delta.shape) // len(deltas))) for delta in deltas]
    left, right = polar(torch.cat([part[0] for part in parts], 1)), polar(torch.cat([part[2] for part in parts]))
    return (left * torch.cat([part[1] for part in parts])) @ right


def iso_c_written_out(deltas):
    left, values, right = svd(deltas.sum(0), floor=EPS * deltas.norm())
    return values.mean() * left @ right


def iso_cts_written_out(deltas, common=0.8):
    models, rank, floor = len(deltas), min(deltas.shape[1:]), EPS * deltas.norm()
    own = min(round((rank - share(rank, common)) / models), rank // models)
    parts = [svd(deltas.sum(0), rank - models * own, floor)]
    shared = parts[0][0]
    for delta in deltas if own else ():
        parts.append(svd(delta - shared @ (shared.mT @ delta), own, floor))
    left, right = polar(torch.cat([part[0] for part in parts], 1)), polar(torch.cat([part[2] for part in parts]))
    return torch.cat([part[1] for part in parts]).mean() * left @ right


METHODS = [(tsv, tsv_written_out), (iso_c, iso_c_written_out), (iso_cts, iso_cts_written_out)]


def full_rank(models, rows, columns, draw):
    return torch.randn(models, rows, columns, generator=draw)


def low_rank(models, rows, columns, draw):
    return torch.randn(models, rows, 5, generator=draw) @ torch.randn(models, 5, columns, generator=draw)


def with_one_untouched(models, rows, columns, draw):
    stack = full_rank(models, rows, columns, draw)
    stack[0] = 0
    return stack


def steep(models, rows, columns, draw):
    """Singular values from 1 to 1e-3."""
    values = torch.logspace(0, -3, min(rows, columns), dtype=torch.float64)
    left, _, right = torch.linalg.svd(full_rank(models, rows, columns, draw).double(), full_matrices=False)
    return ((left * values) @ right).float()


@pytest.mark.parametrize(("method", "written_out"), METHODS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("kind", [full_rank, low_rank, with_one_untouched, steep], ids=lambda one: one.__name__)
@pytest.mark.parametrize("models", [2, 3, 8])
@pytest.mark.parametrize("shape", [(40, 40), (90, 40), (40, 90)], ids=str)
def test_the_result_is_that_of_the_definition(method, written_out, kind, models, shape):
    deltas = kind(models, *shape, torch.Generator().manual_seed(7))
    wanted = written_out(deltas.double())
    assert (method(deltas) - wanted).norm() <= 1e-6 * wanted.norm()


@pytest.mark.parametrize(("method", "written_out"), METHODS, ids=lambda one: one.__name__)
def test_models_that_are_nearly_copies_keep_what_sets_them_apart(method, written_out):
    """They differ by a hundredth: whitening then stretches differences a hundredfold, and float32 would show."""
    draw = torch.Generator().manual_seed(3)
    deltas = torch.randn(60, 30, generator=draw) + 0.01 * torch.randn(2, 60, 30, generator=draw)
    wanted = written_out(deltas.double())
    assert (method(deltas) - wanted).norm() <= 1e-6 * wanted.norm()
