"""Pruning: which entries of a row stay. Pure functions on blocks; the cuts come from `ops.order`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from smelt.ops.order import Cut

__all__ = ["keep_above", "keep_rows"]


def keep_rows(stack: Tensor, cuts: Sequence[Cut]) -> Tensor:
    """The stack with, in each row, only the entries that the row's cut keeps; the rest is zero."""
    kept = torch.empty_like(stack)
    for out, row, cut in zip(kept, stack, cuts, strict=True):
        out.copy_(keep_above(row, row, cut))
    return kept


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
