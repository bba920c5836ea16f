"""Singular directions of whole matrices: the mathematics shared by tsv, iso, wudi, svc, knots and core_space.

Everything here rests on the eigenvectors of the smaller Gram matrix, in float64, which takes less than half the time
of a float32 SVD of the same layer. Squaring costs half the digits, and float64 has them to spare: the directions are
as good as those of a float32 SVD down to the rounding of the data. On the side that is not an eigenbasis, two
directions are orthogonal to about 1e-16 (largest / smaller singular value)^2. Products are in products.py; whitening.py
makes the directions of several models orthogonal to one another.

Only the *numerical range* comes back. A direction whose singular value is rounding noise has no vectors of its own:
LAPACK fills in an arbitrary pair, which differs with the order of the models. So an all-zero matrix has no
directions at all, and nothing downstream divides by zero.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from smelt.ops.products import gram, image, strips

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.ops.block import Stack

__all__ = ["Directions", "basis", "noise", "row_space", "split", "svd"]


_NOISE = 4 * 2.0**-23
"""Singular values up to this share of a float32 matrix's length are rounding: four times the spacing of its numbers."""


class Directions(NamedTuple):
    """matrix = left @ diag(values) @ right, in float64, largest value first; only values above the noise."""

    left: Tensor
    values: Tensor
    right: Tensor


def noise(stack: Stack) -> float:
    """The singular value below which a float32 matrix, or a sum or difference of the stack's, is rounding."""
    matrices = stack if stack.ndim == 3 else [stack]
    squared = sum(float(strip.square().sum()) for matrix in matrices for _, strip in strips(matrix))
    return _NOISE * math.sqrt(squared)


def split(lower: Tensor, *, floor: float | None = None, top: int | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """Singular values [k], right directions [columns, k] of a matrix A, and an orthonormal basis of all that is left.

    From the lower triangle of A^T A. At most `top` directions, largest first, and only those above `floor` (None: the
    noise of A, whose squared norm is the trace).
    """
    import torch

    least = _NOISE**2 * float(lower.trace()) if floor is None else floor**2
    squares, vectors = torch.linalg.eigh(lower)
    first = max(int((squares <= least).sum()), 0 if top is None else len(squares) - top)
    return squares[first:].flip(0).sqrt(), vectors[:, first:].flip(1), vectors[:, :first]


def basis(lower: Tensor, *, floor: float | None = None, top: int | None = None) -> tuple[Tensor, Tensor]:
    """The same without what is left, in memory of its own."""
    return split(lower, floor=floor, top=top)[:2]


def svd(matrix: Tensor, *, top: int | None = None, floor: float | None = None) -> Directions:
    """The `top` largest singular directions of [rows, columns] (None: all) above `floor` (None: its own noise)."""
    import torch

    flat = matrix.shape[0] <= matrix.shape[1]
    tall = matrix.mT if flat else matrix
    floor = noise(matrix) if floor is None else floor
    right = torch.linalg.eigh(gram(tall))[1].flip(1)[:, :top]
    left = image(tall, right)
    values = torch.linalg.vector_norm(left, dim=0)
    kept = values > floor
    if not kept.all():
        left, values, right = left[:, kept], values[kept], right[:, kept]
    left.div_(values)
    return Directions(right, values, left.mT) if flat else Directions(left, values, right.mT)


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
        total.add_(gram(matrix), alpha=float(root) ** 2)
    values, vectors = (found.flip(-1) for found in torch.linalg.eigh(total))
    # The trace is the squared Frobenius norm of the stack, so this is the same noise as everywhere else.
    floor = _NOISE**2 * total.trace()
    kept = (values > floor)[:rank]
    return values[:rank][kept], vectors[:, :rank][:, kept]
