"""Passthrough: one model as it is, times `scale`. With layer slices it stacks layers of several models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import PerModel, Stack, merge_method

if TYPE_CHECKING:
    from torch import Tensor


@merge_method("passthrough", space="weight", models=(1, 1))
def passthrough(model: Stack, *, scale: PerModel[float] = 1.0) -> Tensor:
    return (model * scale)[0]
