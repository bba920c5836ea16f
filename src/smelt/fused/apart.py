"""The words of `traced.py` for programs that draw: what is watched is summed apart, by a kernel of its own.

A kernel that draws and also sums along rows took 1.8 times as long as this for three models, and 3.3 times as long as
one that sums nothing for eight. So where an input is not finite, the result is made no number, and a second pass over
the result alone sees it.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from smelt.fused.traced import (
    add,
    add_scaled,
    agree,
    at_least,
    clamp,
    cut,
    divide,
    draw,
    larger,
    load,
    multiply,
    no_zero,
    over,
    sign,
    sign_up,
    subtract,
    variance,
    where,
)

__all__ = [
    "add",
    "add_scaled",
    "agree",
    "at_least",
    "clamp",
    "cut",
    "divide",
    "draw",
    "larger",
    "load",
    "multiply",
    "no_zero",
    "over",
    "sign",
    "sign_up",
    "subtract",
    "variance",
    "where",
]


def store(out: Tensor, merged: Tensor, taps: Sequence[Tensor]) -> None:
    total = taps[0].to(torch.float32).abs()
    for tap in taps[1:]:
        total = total + tap.to(torch.float32).abs()
    out.copy_(torch.where(total < float("inf"), merged, float("nan")))


def watched(taps: Sequence[Tensor], out: Tensor | None) -> None:
    """Nothing: the sum over the result says it."""
