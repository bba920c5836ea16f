"""Sums, Gram matrices and means on the sphere.

Whatever is a linear combination of the models is found from their Gram matrix, a few numbers per tensor, and then
applied block by block: no tensor is ever needed whole. Products within a block are float32, everything after that
is float64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smelt.errors import NumericalError, RecipeError
from smelt.ops.block import Block, Stack

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "check_weights",
    "gram",
    "karcher_weights",
    "mean_of_present",
    "multislerp_weights",
    "row_gram",
    "slerp_weights",
    "total",
    "weighted_sum",
]

_ALMOST_PARALLEL = 0.9995
_FEW = 6
"""Up to so many models, dot products one by one are faster than a thin matrix product."""


def weighted_sum(stack: Stack, weights: Tensor | Sequence[float]) -> Tensor:
    """sum_i w_i x_i, one fused multiply-add per model and no temporary of the stack's size."""
    from torch import Tensor

    first, *rest = weights.flatten().tolist() if isinstance(weights, Tensor) else weights
    out = stack[0] * first
    for row, weight in zip(stack[1:], rest, strict=True):
        out.add_(row, alpha=weight)
    return out


def check_weights(weights: Sequence[float], normalize: bool) -> None:
    """Refuse weights that sum to zero where they are to be divided by their sum."""
    if normalize and abs(sum(weights)) < 1e-12:
        raise RecipeError("the weights sum to zero, so their mean does not exist; set normalize: false for the sum")


def total(stack: Stack) -> Tensor:
    """sum_i x_i, row after row: twice as fast as a reduction along the first axis."""
    out = stack[0].clone()
    for row in stack[1:]:
        out.add_(row)
    return out


def mean_of_present(stack: Stack) -> Tensor:
    """The mean over the models whose entry is not zero; zero where all are."""
    count = total(stack.sign().abs_())
    return total(stack).div_(count.clamp_min_(1.0))


def gram(block: Block) -> Tensor:
    """<x_i, x_j> over the block's elements; blocks are small, and their sums are added up in float64."""
    import torch

    rows = block.stack.flatten(1)
    if len(rows) > _FEW or rows.device.type != "cpu":
        return (rows @ rows.T).to(torch.float64)
    products = torch.empty(len(rows), len(rows), dtype=torch.float64)
    for i, left in enumerate(rows):
        for j, right in enumerate(rows[: i + 1]):
            products[i, j] = products[j, i] = float(torch.dot(left, right))
    return products


def row_gram(stack: Stack) -> Tensor:
    """<x_i, x_j> for every row of (models, rows, columns), as (rows, models, models) in float64."""
    import torch

    rows = stack.transpose(0, 1).to(torch.float64)
    return rows @ rows.mT


def slerp_weights(gram: Tensor, t: float, parallel: float = _ALMOST_PARALLEL) -> Tensor:
    """The two weights of spherical interpolation, for a Gram matrix or a batch of them.

    Vectors whose cosine is above `parallel` (or below its negative) are interpolated linearly.
    """
    import torch

    norms = gram.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    cosine = (gram[..., 0, 1] / (norms[..., 0] * norms[..., 1]).clamp_min(torch.finfo(gram.dtype).tiny)).clamp(-1, 1)
    linear = cosine.abs() > parallel
    angle = torch.acos(torch.where(linear, torch.zeros_like(cosine), cosine))
    first = torch.where(linear, 1 - t, torch.sin((1 - t) * angle) / torch.sin(angle))
    second = torch.where(linear, t, torch.sin(t * angle) / torch.sin(angle))
    return torch.stack([first, second], dim=-1)


def multislerp_weights(gram: Tensor, weights: Sequence[float]) -> Tensor:
    """Interpolation on the sphere in the tangent space at the normalised mean direction, with the mean norm."""
    import torch

    norms, cosines = _unit(gram)
    share = torch.tensor(weights, dtype=gram.dtype)
    direction = share / _length(share, cosines)
    tangent = share - float(share @ cosines @ direction) * direction
    angle = _length(tangent, cosines, floor=0.0)
    point = direction * math.cos(angle) + (tangent * (math.sin(angle) / angle) if angle > 0 else 0 * tangent)
    return _scaled(point, norms, float(share @ norms))


def karcher_weights(gram: Tensor, weights: Sequence[float], iterations: int, tolerance: float) -> Tensor:
    """The point on the sphere with the least squared angles to all directions, with the mean norm."""
    import torch

    norms, cosines = _unit(gram)
    share = torch.tensor(weights, dtype=gram.dtype)
    live = (norms > 0).to(gram.dtype) * share
    if float(live.sum()) == 0:
        return torch.zeros_like(share)
    live = live / live.sum()
    point = live / _length(live, cosines)
    for _ in range(iterations):
        dots = (cosines @ point).clamp(-1, 1)
        angles = torch.acos(dots)
        pull = live * torch.where(angles > 1e-9, angles / torch.sin(angles).clamp_min(1e-12), torch.ones_like(angles))
        tangent = pull - float(pull @ dots) * point
        step = _length(tangent, cosines, floor=0.0)
        if step < tolerance:
            break
        point = point * math.cos(step) + tangent * (math.sin(step) / step)
        point = point / _length(point, cosines)
    return _scaled(point, norms, float(share @ norms))


def _unit(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Norms, and the Gram matrix of the unit vectors (a zero vector has none, so its row is zero)."""
    import torch

    norms = gram.diagonal().clamp_min(0).sqrt()
    safe = torch.where(norms > 0, norms, torch.ones_like(norms))
    return norms, gram / safe[:, None] / safe[None, :]


def _length(weights: Tensor, cosines: Tensor, floor: float = 1e-9) -> float:
    """The norm of a combination of unit vectors."""
    length = math.sqrt(max(0.0, float(weights @ cosines @ weights)))
    if length < floor and float(cosines.abs().sum()) > 0:
        raise NumericalError(
            "the models' directions cancel out, so they have no mean on the sphere; change the weights"
        )
    return max(length, floor)


def _scaled(point: Tensor, norms: Tensor, length: float) -> Tensor:
    """Weights of the vectors themselves from the weights of their directions, scaled to a length."""
    import torch

    return torch.where(norms > 0, point * length / torch.where(norms > 0, norms, torch.ones_like(norms)), 0 * point)
