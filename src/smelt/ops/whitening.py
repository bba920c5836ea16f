"""Whitening: directions of several models turned as little as possible until all are orthogonal.

    X = [X_1 ... X_n] = P D Q^T  ->  P Q^T = X W,      W = (X^T X)^-1/2

Each block X_i has orthonormal columns, so X^T X is the identity but for what blocks have in common. W is as wide as all
blocks together, however long their columns are, and three ways lead to it. Two blocks: all follows from the singular
values of X_1^T X_2, a matrix of half the width. One block wider than all others together: W differs from the identity
only in twice their width. Else: the eigenvectors of X^T X.

Directions that are linearly dependent share the one they span, each in part, instead of getting arbitrary ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.ops.products import gram, mirrored

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

__all__ = ["whitening"]


def whitening(blocks: Sequence[Tensor]) -> Tensor:
    """W, in float64, for float64 blocks [length, any width] with orthonormal columns. Blocks may be empty."""
    import torch

    width = sum(block.shape[1] for block in blocks)
    blocks = [block for block in blocks if block.shape[1]]
    if len(blocks) < 2:
        return torch.eye(width, dtype=torch.float64, device=blocks[0].device if blocks else None)
    # The least eigenvalue of X^T X that is no rounding of float32 data: as `noise` of X, whose squared norm is its width.
    floor = (4 * torch.finfo(torch.float32).eps) ** 2 * width
    if len(blocks) == 2:
        return _of_two(blocks[0].mT @ blocks[1], floor)
    if 2 * blocks[0].shape[1] > width:
        rest = torch.cat(list(blocks[1:]), dim=1)
        return _beside_one(blocks[0].mT @ rest, _gram_of(blocks[1:]), floor)
    return _inverse_root(_gram_of(blocks), floor)


def _gram_of(blocks: Sequence[Tensor]) -> Tensor:
    """The lower triangle of X^T X."""
    import torch

    width = sum(block.shape[1] for block in blocks)
    total = torch.eye(width, dtype=torch.float64, device=blocks[0].device)
    down = 0
    for number, block in enumerate(blocks):
        across = 0
        for before in blocks[:number]:
            torch.mm(
                block.mT, before, out=total[down : down + block.shape[1], across : across + before.shape[1]]
            )
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


def _of_two(cross: Tensor, floor: float) -> Tensor:
    """W for [[1, C], [C^T, 1]], C = P s Q^T: its eigenvalues are 1 + s and 1 - s, and 1 beside them.

    Nothing is divided by a small s: what stands on P's side is written as C Q, whose columns have the length s.
    """
    import torch

    first, second = cross.shape
    if first < second:
        return _of_two(cross.mT, floor).roll((first, first), (0, 1))
    squares, turn = torch.linalg.eigh(gram(cross))
    squares = squares.clamp(0.0, 1.0)
    common = squares.sqrt()
    plus = (1 + common).rsqrt()
    minus = torch.where(1 - common > floor, (1 - common).rsqrt(), 0.0)
    even, odd = (plus + minus) / 2, (plus - minus) / 2
    small = common < 1e-6
    turned = cross @ turn
    white = torch.eye(first + second, dtype=torch.float64, device=cross.device)
    white[:first, :first].addmm_(turned * torch.where(small, 3 / 8, (even - 1) / squares), turned.mT)
    white[:first, first:] = (turned * torch.where(small, -1 / 2, odd / common)) @ turn.mT
    white[first:, :first] = white[:first, first:].mT
    white[first:, first:] = (turn * even) @ turn.mT
    return white


def _beside_one(cross: Tensor, rest: Tensor, floor: float) -> Tensor:
    """W for [[1, C], [C^T, H]] where C is tall: outside the space of C's columns, the first block stays as it is."""
    import torch

    first, second = cross.shape
    basis, coordinates = torch.linalg.qr(cross)
    small = torch.eye(2 * second, dtype=torch.float64, device=cross.device)
    small[second:, :second] = coordinates.mT
    small[second:, second:] = rest
    change = _inverse_root(small, floor)
    change.diagonal().sub_(1)
    white = torch.eye(first + second, dtype=torch.float64, device=cross.device)
    side = basis @ change[:second]
    white[:first, :first].addmm_(side[:, :second], basis.mT)
    white[:first, first:] = side[:, second:]
    white[first:, :first] = side[:, second:].mT
    white[first:, first:] += change[second:, second:]
    return white
