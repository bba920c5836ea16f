"""Singular directions of whole matrices: the mathematics shared by tsv, iso, wudi, svc, knots and core_space.

Everything here rests on the eigenvectors of the smaller Gram matrix, in float64, which takes less than half the time
of a float32 SVD of the same layer. Squaring costs half the digits, and float64 has them to spare: the directions are
as good as those of a float32 SVD down to the rounding of the data. On the side that is not an eigenbasis, two
directions are orthogonal to about 1e-16 (largest / smaller singular value)^2.

Only the *numerical range* comes back. A direction whose singular value is rounding noise has no vectors of its own:
LAPACK fills in an arbitrary pair, which differs with the order of the models. So an all-zero matrix has no
directions at all, and nothing downstream divides by zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.ops.block import Stack

__all__ = ["Directions", "noise", "polar", "row_space", "svd"]


class Directions(NamedTuple):
    """matrix = left @ diag(values) @ right, in float64, largest value first; only values above the noise."""

    left: Tensor
    values: Tensor
    right: Tensor


def noise(stack: Stack) -> float:
    """The singular value below which a float32 matrix, or a sum or difference of the stack's, is rounding."""
    import torch

    return 4 * torch.finfo(torch.float32).eps * float(torch.linalg.vector_norm(stack, dtype=torch.float64))


def svd(matrix: Tensor, *, top: int | None = None, floor: float | None = None) -> Directions:
    """The `top` largest singular directions of [rows, columns] (None: all) above `floor` (None: its own noise)."""
    import torch

    rows, columns = matrix.shape
    if rows > columns:
        right, values, left = svd(matrix.mT, top=top, floor=floor)
        return Directions(left.mT, values, right.mT)
    floor = noise(matrix) if floor is None else floor
    exact = matrix.to(torch.float64)
    left = _eigenvectors(exact @ exact.mT)[1][:, :top]
    right = left.mT @ exact
    values = torch.linalg.vector_norm(right, dim=1)
    kept = values > floor
    left, values, right = left[:, kept], values[kept], right[kept]
    return Directions(left, values, right / values[:, None])


def polar(matrix: Tensor) -> Tensor:
    """The nearest matrix with orthonormal rows or columns: P Q^T of P D Q^T, the Procrustes whitening.

    Directions that are linearly dependent share the one they span, each in part, instead of getting arbitrary ones.
    """
    left, _, right = svd(matrix)
    return left @ right


def row_space(stack: Stack, *, weights: Tensor | None = None, rank: int | None = None) -> tuple[Tensor, Tensor]:
    """The space that the rows of [models, rows, columns] span.

    Eigenvalues [rank] of sum_i w_i d_i^T d_i, and the columns [columns, rank] that go along: at most `rank` of them
    (None: all above the noise), largest first. The column space is that of `stack.mT`.
    """
    import torch

    models, rows, columns = stack.shape
    roots = torch.ones(models, dtype=torch.float64, device=stack.device) if weights is None else weights.sqrt()
    if rows < columns <= models * rows:  # the rows of low-rank changes are few once written in their columns' basis
        left = row_space(stack.mT, weights=weights)[1]
        if models * left.shape[1] < columns:
            stack = torch.stack([left.mT @ matrix.to(torch.float64) for matrix in stack])
    if models * stack.shape[1] < columns:
        _, values, right = svd((stack * roots[:, None, None]).flatten(0, 1), top=rank)
        return values.square(), right.mT
    total = torch.zeros(columns, columns, dtype=torch.float64, device=stack.device)
    for matrix, root in zip(stack, roots, strict=True):
        scaled = matrix.to(torch.float64) * root
        total.addmm_(scaled.mT, scaled)
    values, vectors = _eigenvectors(total)
    # The trace is the squared Frobenius norm of the stack, so this is the same noise as everywhere else.
    floor = (4 * torch.finfo(torch.float32).eps) ** 2 * total.trace()
    kept = (values > floor)[:rank]
    return values[:rank][kept], vectors[:, :rank][:, kept]


def _eigenvectors(gram: Tensor) -> tuple[Tensor, Tensor]:
    import torch

    values, vectors = torch.linalg.eigh(gram)
    return values.flip(0), vectors.flip(1)
