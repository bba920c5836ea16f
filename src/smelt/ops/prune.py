"""Pruning: which entries of a row stay. Pure functions on blocks; the cuts come from `ops.order`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from smelt.ops.block import Block, Stack
from smelt.ops.fold import Chain, Fold, Sum
from smelt.ops.order import Cut

__all__ = [
    "Bits",
    "keep_above",
    "keep_rows",
    "l1_factors",
    "l1_ratios",
    "l1_sums",
    "pack",
    "ranks_in_rows",
    "sorted_magnitudes",
    "unpack",
    "with_l1",
]

Bits: TypeAlias = npt.NDArray[np.uint8]


def keep_rows(stack: Stack, cuts: Sequence[Cut]) -> Stack:
    """The stack with, in each row, only the entries that the row's cut keeps; the rest is zero."""
    kept = torch.empty_like(stack)
    for out, row, cut in zip(kept, stack, cuts, strict=True):
        keep_above(row, cut, out)
    return kept


def keep_above(row: Tensor, cut: Cut, out: Tensor | None = None) -> Tensor:
    """The entries of a row whose magnitude passes the cut; the rest is zero.

    `hardshrink` is the one vectorised kernel that compares and selects in a single pass; it keeps what is strictly
    above its bound.
    """
    out = torch.empty_like(row) if out is None else out
    if cut.value == math.inf:
        return out.zero_()
    if cut.value == 0:
        return out.copy_(row)
    bound = cut.value if cut.ties == 0 else cut.below
    torch.ops.aten.hardshrink.out(row, bound, out=out)
    if cut.ties:
        equal = (row.abs() == cut.value).flatten()
        if int(torch.count_nonzero(equal)) > cut.ties:
            surplus = equal & (equal.cumsum(0) > cut.ties)
            out.masked_fill_(surplus.view_as(out), 0.0)
    return out


def l1_factors(kept: Callable[[Block], Stack]) -> Sum:
    """For each model, what its kept entries must be multiplied by to have the summed magnitude of all of them."""
    return Sum(lambda block: l1_sums(block.stack, kept(block)), l1_ratios)


def l1_sums(before: Stack, after: Stack) -> Tensor:
    """The summed magnitude of each model before and after pruning."""
    return torch.stack([x.abs().flatten(1).sum(1) for x in (before, after)])


def l1_ratios(sums: Tensor) -> Tensor:
    """Summed magnitude before over after, 1 where nothing is left."""
    before, after = sums
    return torch.where(after > 0, before / after.clamp_min(1e-300), torch.ones_like(after))


def with_l1(first: Fold, keep: Callable[[Stack, Any], Stack]) -> Chain:
    """A fold whose finding prunes (`keep(stack, found)`), followed by the factors that restore the summed magnitude."""
    return Chain(first, lambda at: l1_factors(lambda block: keep(block.stack, at(block.place))))


def sorted_magnitudes(stack: Stack) -> Tensor:
    """The magnitudes of every row (the last axis), smallest first."""
    if stack.device.type != "cpu":
        return stack.abs().sort(-1).values
    bits = stack.abs().view(torch.int32)  # non-negative floats sort like their bits, and integers sort faster
    bits.numpy().sort(axis=-1)
    return bits.view(torch.float32)


def ranks_in_rows(stack: Stack) -> Tensor:
    """For every entry, the share of its row (the last axis) that is below it, counted in entries: those smaller in
    magnitude and half of those equal to it, itself included.
    """
    ordered, indices = stack.abs().sort(-1)
    positions = torch.arange(stack.shape[-1], dtype=torch.float32, device=stack.device).expand_as(stack)
    step = ordered[..., 1:] != ordered[..., :-1]
    edge = torch.ones_like(step[..., :1])
    begin = (positions * torch.cat([edge, step], -1)).cummax(-1).values
    last = torch.cat([step, edge], -1)
    end = torch.where(last, positions + 1, torch.inf).flip(-1).cummin(-1).values.flip(-1)
    return torch.empty_like(stack).scatter_(-1, indices, (begin + end) / 2)


def pack(mask: Tensor) -> Bits:
    """A mask of zeros and ones as one bit each."""
    bits: Bits = np.packbits(mask.to("cpu", torch.uint8).numpy().reshape(-1))
    return bits


def unpack(bits: Bits, like: Tensor) -> Tensor:
    """The mask again, shaped like a tensor."""
    mask = torch.from_numpy(np.unpackbits(bits, count=like.numel()))
    return mask.to(like.device).to(like.dtype).view_as(like)
