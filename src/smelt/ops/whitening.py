"""Whitening: directions of several models turned as little as possible until all are orthogonal.

    X = [X_1 ... X_n] = P D Q^T  ->  P Q^T = X W,      W = (X^T X)^-1/2

Each block X_i has orthonormal columns, so X^T X is the identity but for what blocks have in common. W is as wide as all
blocks together, however long their columns are, and there are three ways to it. Two blocks: all follows from the
singular values of X_1^T X_2, a matrix of half the width. One block wider than all others together: W differs from the
identity only in twice their width. Else: the eigenvectors of X^T X.

Directions that are linearly dependent share the one they span, each in part, instead of getting arbitrary ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.ops.products import gram, mirrored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["whitened"]


def whitened(blocks: Sequence[Tensor], matrix: Tensor) -> Tensor:
    """W @ matrix, for float64 blocks [length, any width] with orthonormal columns, which may be empty.

    The matrix has a row for each of their columns. Given X^T, this is the transposed P Q^T.
    """
    import torch

    blocks = [block for block in blocks if block.shape[1]]
    if len(blocks) < 2:
        return matrix
    # The least eigenvalue of X^T X that is no rounding of float32 data. The squared norm of X is its width.
    floor = (4 * torch.finfo(torch.float32).eps) ** 2 * len(matrix)
    first = blocks[0].shape[1]
    if len(blocks) == 2:
        return _of_two(blocks[0].mT @ blocks[1], matrix[:first], matrix[first:], floor)
    if 2 * first > len(matrix):
        cross = blocks[0].mT @ torch.cat(blocks[1:], dim=1)
        return _beside_one(cross, _gram_of(blocks[1:]), matrix[:first], matrix[first:], floor)
    return _inverse_root(_gram_of(blocks), floor) @ matrix


def _gram_of(blocks: Sequence[Tensor]) -> Tensor:
    """The lower triangle of X^T X."""
    import torch

    width = sum(block.shape[1] for block in blocks)
    total = torch.eye(width, dtype=torch.float64, device=blocks[0].device)
    down = 0
    for number, block in enumerate(blocks):
        across = 0
        for before in blocks[:number]:
            torch.mm(block.mT, before, out=total[down : down + block.shape[1], across : across + before.shape[1]])
            across += before.shape[1]
        down += block.shape[1]
    return total


def _inverse_root(lower: Tensor, floor: float) -> Tensor:
    """The matrix to the power -1/2, leaving out eigenvalues up to `floor`."""
    import torch

    values, vectors = torch.linalg.eigh(lower)
    kept = int((values > floor).sum())
    halves = vectors[:, len(values) - kept :] * values[len(values) - kept :] ** -0.25
    return mirrored(gram(halves.mT))


def _of_two(cross: Tensor, upper: Tensor, under: Tensor, floor: float) -> Tensor:
    """W for [[1, C], [C^T, 1]], C = P s Q^T: its eigenvalues are 1 + s and 1 - s, and 1 beside them.

    Nothing is divided by a small s: what stands on P's side is written as C Q, whose columns have the length s.
    """
    import torch

    if cross.shape[0] < cross.shape[1]:
        return _of_two(cross.mT, under, upper, floor).roll(len(upper), 0)
    squares, turn = torch.linalg.eigh(gram(cross))
    squares = squares.clamp(0.0, 1.0)
    common = squares.sqrt()
    plus = (1 + common).rsqrt()
    minus = torch.where(1 - common > floor, (1 - common).rsqrt(), 0.0)
    even, odd = (plus + minus) / 2, (plus - minus) / 2
    small = common < 1e-6  # there (even - 1) / s^2 and odd / s are at their limits
    shrunk = torch.where(small, 3 / 8, (even - 1) / squares)[:, None]
    mixed = torch.where(small, -1 / 2, odd / common)[:, None]
    turned = cross @ turn
    above, below = turned.mT @ upper, turn.mT @ under
    out = torch.cat([upper, under])
    out[: len(upper)].addmm_(turned, (above * shrunk).addcmul_(below, mixed))
    torch.mm(turn, above.mul_(mixed).addcmul_(below, even[:, None]), out=out[len(upper) :])
    return out


def _beside_one(cross: Tensor, rest: Tensor, upper: Tensor, under: Tensor, floor: float) -> Tensor:
    """W for [[1, C], [C^T, H]] where C is tall: outside the space of C's columns, the first block stays as it is."""
    import torch

    basis, coordinates = torch.linalg.qr(cross)
    second = len(coordinates)
    small = torch.eye(2 * second, dtype=torch.float64, device=cross.device)
    small[second:, :second] = coordinates.mT
    small[second:, second:] = rest
    change = _inverse_root(small, floor)
    change.diagonal().sub_(1)
    turned = change @ torch.cat([basis.mT @ upper, under])
    out = torch.cat([upper, under + turned[second:]])
    out[: len(upper)].addmm_(basis, turned[:second])
    return out
