"""Sums, Gram matrices and means on the sphere. Everything that is a linear combination of the models is
found from their Gram matrix (a few numbers per tensor) and applied block by block."""

from __future__ import annotations

import torch
from torch import Tensor

from smelt.ops.block import Block, Stack

__all__ = ["gram", "weighted_sum"]


def weighted_sum(stack: Stack, weights: Tensor) -> Tensor:
    """sum_i w_i x_i, one fused multiply-add per model and no temporary of the stack's size."""
    first, *rest = weights.flatten().tolist()
    out = stack[0] * first
    for row, weight in zip(stack[1:], rest, strict=True):
        out.add_(row, alpha=weight)
    return out


def gram(block: Block) -> Tensor:
    """<x_i, x_j> over the block's elements, in float64."""
    rows = block.stack.flatten(1).to(torch.float64)
    return rows @ rows.T
