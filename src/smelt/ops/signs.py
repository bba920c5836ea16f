"""Sign election: which direction the models agree on, entry by entry, and what the agreeing ones say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from smelt.ops.block import Stack
from smelt.ops.geometry import total

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Elect", "Tie", "agreeing", "elected_sign"]

Elect: TypeAlias = Literal["mass", "count"]
Tie: TypeAlias = Literal["base", "positive"]


def elected_sign(stack: Stack, by: Elect, tie: Tie) -> Tensor:
    """+1 or -1 for every entry of [models, ...], as [...].

    The sign of the summed changes (`mass`) or of most models (`count`). An exact tie is 0, so that nobody agrees and
    the base stays (`base`), or +1 (`positive`, as mergekit counts).
    """
    sign = total(stack if by == "mass" else stack.sign()).sign_()
    return sign if tie == "base" else sign.add_(0.5).sign_()


def agreeing(stack: Stack, sign: Tensor) -> Stack:
    """|x_i| where model i of [models, ...] has the elected sign [...], 0 elsewhere."""
    return (stack * sign).clamp_min_(0.0)
