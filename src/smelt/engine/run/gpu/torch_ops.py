"""What the lines of a generated program mean in torch: one operation after the other, as few kernels as there are.

Every word does what machine.c does, to the bit: each result is rounded once, a division is a division, and
`add_scaled` is a fused multiply-add.
"""

from __future__ import annotations

import torch
from torch import Tensor

from smelt.ops.random import counter, mixed

__all__: list[str] = []

subtract, add, multiply, divide, sign, larger = torch.sub, torch.add, torch.mul, torch.div, torch.sign, torch.maximum


def load(tap: Tensor) -> Tensor:
    return tap.to(torch.float32)


def store(out: Tensor, merged: Tensor) -> None:
    out.copy_(merged)


def add_scaled(total: Tensor, row: Tensor, factor: float) -> Tensor:
    return torch.add(total, row, alpha=factor)


def over(row: Tensor, divisor: float, inverse: float) -> Tensor:
    """A tensor divides: by a plain number a GPU would multiply with its inverse."""
    return torch.div(row, row.new_full((), divisor))


def cut(row: Tensor, above: float) -> Tensor:
    return torch.hardshrink(row, above)


def cut_first(row: Tensor, above: float, equal: float, left: Tensor) -> Tensor:
    """`left` is how many of magnitude `equal` may still pass, and is lowered by those that are met."""
    there = row.abs() == equal
    surplus = there & (there.cumsum(0) > left)
    left.sub_(there.sum()).clamp_min_(0)
    return cut(row, above).masked_fill_(surplus, 0.0)


def where(row: Tensor, other: Tensor, above: float) -> Tensor:
    return torch.where(other.abs() > above, row, 0.0)


def clamp(row: Tensor, most: float) -> Tensor:
    return row.clamp(-most, most)


def variance(a: Tensor, b: Tensor, c: Tensor, three: float, third: float) -> Tensor:
    """Of three models, place by place."""
    mean = over(a + b + c, three, third)
    first, second, last = ((row - mean).square_() for row in (a, b, c))
    return over(first.add_(second).add_(last), three, third)


def places(tap: Tensor) -> Tensor:
    """The numbers of its elements."""
    return counter(tap.numel(), tap.device)


def draw(place: Tensor, limit: int, low: int, between: int) -> Tensor:
    return (mixed(place + low, between) <= limit).to(torch.float32)


def sign_up(row: Tensor) -> Tensor:
    return torch.where(row < 0, -1.0, 1.0)


def positive(size: Tensor) -> Tensor:
    """1 where a number that is not below 0 is above it."""
    return torch.sign(size)


def agree(row: Tensor, elected: Tensor) -> Tensor:
    return torch.mul(row, elected).clamp_min_(0.0)


def at_least(row: Tensor, least: float) -> Tensor:
    return row.clamp_min(least)


def no_zero(row: Tensor) -> Tensor:
    return row.masked_fill(row == 0, 1.0)


def watched(out: Tensor | None, *taps: Tensor) -> Tensor:
    """A number that is finite if all that was read and written is."""
    read = [*taps, out] if out is not None else taps
    return torch.stack([one.sum(dtype=torch.float32) for one in read]).sum()
