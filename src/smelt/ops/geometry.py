"""Sums and Gram matrices.

Whatever is a linear combination of the models is found from their Gram matrix, a few numbers per tensor, and then
applied block by block: no tensor is ever needed whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from smelt.errors import RecipeError
from smelt.ops.block import Block, Stack

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "check_weights",
    "gram",
    "mean",
    "mean_of_present",
    "normalised",
    "row_gram",
    "total",
    "weighted_sum",
]


def weighted_sum(stack: Stack, weights: Tensor | Iterable[float]) -> Tensor:
    """sum_i w_i x_i of [models, ...], as [...]: a fused multiply-add per model, no temporary of the stack's size."""
    from torch import Tensor

    first, *rest = weights.flatten().tolist() if isinstance(weights, Tensor) else map(float, weights)
    out = stack[0] * first
    for row, weight in zip(stack[1:], rest, strict=True):
        out.add_(row, alpha=weight)
    return out


def check_weights(weights: Sequence[float], normalize: bool) -> None:
    """Refuse weights that sum to zero where they are to be divided by their sum."""
    if normalize and abs(sum(weights)) < 1e-12:
        raise RecipeError("the weights sum to zero, so their mean does not exist; set normalize: false for the sum")


def total(stack: Stack) -> Tensor:
    """sum_i x_i of [models, ...], as [...], row after row: twice as fast as a reduction along the first axis."""
    out = stack[0].clone()
    for row in stack[1:]:
        out.add_(row)
    return out


def mean(stack: Stack) -> Tensor:
    """Over the models of [models, ...], rounded once.

    A tensor divides: by a plain number a GPU would multiply with its inverse.
    """
    return total(stack).div_(stack.new_full((), len(stack)))


def mean_of_present(stack: Stack) -> Tensor:
    """The mean of [models, ...] over the models whose entry is not zero; zero where all are."""
    count = total(stack.sign().abs_())
    return total(stack).div_(count.clamp_min_(1.0))


def gram(block: Block) -> Tensor:
    """<x_i, x_j> over the block's elements, as [models, models] in float64."""
    import torch

    rows = block.stack.flatten(1).to(torch.float64)
    return rows @ rows.T


def normalised(weights: Tensor) -> Tensor:
    """Weights [models, ...] over their sum, which is taken in float64."""
    exact = weights.double()
    return (exact / exact.sum()).to(weights.dtype)


def row_gram(stack: Stack) -> Tensor:
    """<x_i, x_j> for every row of [models, rows, columns], as [rows, models, models] in float64."""
    import torch

    rows = stack.transpose(0, 1).to(torch.float64)
    return rows @ rows.mT
