"""Pruning: which entries of a row stay. Pure functions on blocks; the cuts come from `ops.order`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from smelt.ops.block import Block, Stack
from smelt.ops.fold import Sum
from smelt.ops.order import Cut

__all__ = ["keep_above", "keep_rows", "l1_factors", "ranks_in_rows"]


def keep_rows(stack: Stack, cuts: Sequence[Cut]) -> Stack:
    """The stack with, in each row, only the entries that the row's cut keeps; the rest is zero."""
    return torch.stack([keep_above(row, row, cut) for row, cut in zip(stack, cuts, strict=True)])


def keep_above(row: Tensor, magnitude_of: Tensor, cut: Cut) -> Tensor:
    """`row` where |magnitude_of| passes the cut, else zero.

    `hardshrink` is the one vectorised kernel that compares and selects in a single pass; it keeps what is
    strictly above its bound.
    """
    same = row is magnitude_of
    if cut.value == 0 and (same or cut.ties is None):
        return row
    if cut.value == math.inf:
        return torch.zeros_like(row)
    bound = cut.value if cut.ties == 0 else cut.below
    kept = torch.nn.functional.hardshrink(row, bound) if same else row * (magnitude_of.abs() > bound)
    if cut.ties:
        equal = (magnitude_of.abs() == cut.value).flatten()
        if int(equal.sum()) > cut.ties:
            surplus = equal & (equal.cumsum(0) > cut.ties)
            kept = kept.masked_fill(surplus.view_as(kept), 0.0)
    return kept


def l1_factors(kept: Callable[[Block], Stack]) -> Sum:
    """For each model, what its kept entries must be multiplied by to have the summed magnitude of all of them."""

    def sums(block: Block) -> Tensor:
        pair = torch.stack([block.stack, kept(block)])
        return pair.abs().flatten(2).sum(-1, dtype=torch.float64)

    def factors(total: Tensor) -> Tensor:
        before, after = total
        return torch.where(after > 0, before / after.clamp_min(1e-300), torch.ones_like(after))

    return Sum(sums, factors)


def ranks_in_rows(stack: Stack) -> Tensor:
    """For every entry, how many of its row (the last axis) have a smaller magnitude; of equals, the earlier is smaller.

    One sort of 64-bit keys, the float's bits above the column's number: numpy sorts those with vector instructions,
    and equal magnitudes cannot come out in an order that depends on the machine.
    """
    columns = stack.shape[-1]
    keys = stack.abs().view(torch.int32).to(torch.int64) << 32
    keys |= torch.arange(columns, device=stack.device)
    if keys.device.type == "cpu":
        keys.numpy().sort(axis=-1)
    else:
        keys = keys.sort(-1).values
    keys &= 0xFFFFFFFF
    positions = torch.arange(columns, dtype=torch.float32, device=stack.device).expand_as(stack)
    return torch.empty_like(stack).scatter_(-1, keys, positions)
