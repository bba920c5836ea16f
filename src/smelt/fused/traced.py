"""The same words as in `words.py`, in a form that torch.compile makes one kernel of: nothing is changed in place, and
numbers and words of keys are scalar tensors, so that a kernel is compiled once for all tensors with the same stages.

Blocks come as rows of 1,024, so that the compiler knows their length to be a multiple of what a thread reads at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._inductor.inductor_prims import fma

from smelt.fused.words import divide, load, multiply, sign, store, subtract
from smelt.ops.random import MULTIPLIERS

__all__ = ["divide", "fma", "load", "multiply", "sign", "store", "subtract"]

add, over = torch.add, torch.div


def add_scaled(total: Tensor, row: Tensor, factor: Tensor) -> Tensor:
    if row.device.type == "cuda":
        fused: Tensor = fma(row, factor.expand_as(row), total)
        return fused
    return (row.double() * factor.double() + total.double()).float()  # the C++ that inductor writes has no such word


def cut(row: Tensor, above: Tensor) -> Tensor:
    return torch.where(row.abs() > above, row, 0.0)


def where(row: Tensor, other: Tensor, above: Tensor) -> Tensor:
    return torch.where(other.abs() > above, row, 0.0)


def clamp(row: Tensor, most: Tensor) -> Tensor:
    return torch.where(row < -most, -most, torch.where(row > most, most, row))


def variance(rows: Sequence[Tensor], three: Tensor) -> Tensor:
    mean = over(rows[0] + rows[1] + rows[2], three)
    first, second, third = ((row - mean) * (row - mean) for row in rows)
    return over(first + second + third, three)


def draw(like: Tensor, limit: Tensor, low: Tensor, between: Tensor) -> Tensor:
    x = torch.arange(like.numel(), dtype=torch.int32, device=like.device).view(like.shape) + low
    x = x ^ ((x >> 16) & 0xFFFF)
    x = (x * MULTIPLIERS[0]) ^ between
    x = x ^ ((x >> 15) & 0x1FFFF)
    x = x * MULTIPLIERS[1]
    x = x ^ ((x >> 16) & 0xFFFF)
    return torch.where(x <= limit, 1.0, 0.0)


def sign_up(row: Tensor) -> Tensor:
    return torch.where(row < 0, -1.0, 1.0)


def agree(row: Tensor, elected: Tensor) -> Tensor:
    both = row * elected
    return torch.where(both > 0, both, 0.0)


def larger(left: Tensor, right: Tensor) -> Tensor:
    return torch.where(left > right, left, right)


def at_least(row: Tensor, least: Tensor) -> Tensor:
    return torch.where(row > least, row, least)


def no_zero(row: Tensor) -> Tensor:
    return torch.where(row == 0, 1.0, row)


def watched(taps: Sequence[Tensor], out: Tensor | None) -> Tensor:
    """For each row a number that is finite if all that was read and written is; the sum is found on the way."""
    read = [*taps, out] if out is not None else taps
    total = read[0].to(torch.float32).abs()
    for one in read[1:]:
        total = total + one.to(torch.float32).abs()
    return total.sum(-1)
