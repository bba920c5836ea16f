"""Passthrough: one model as it is, times `scale`. With layer slices it stacks layers of several models.

    out = scale * x

Use it with `slices`, to stack layers of one or several models into a deeper one, or in a part of a recipe, to take
some tensors from one model. Avoid it to merge: it takes one model at a time. A stack of layers usually has to be
trained further before it is better than its parents.

Its parameters:
    scale: what the weights are multiplied by. Try `1`; `0` for the output projections of layers that are there twice
        makes the second pass its input on.

Example:
    merge: {passthrough: {scale: [{filter: "*.mlp.fc2.*", value: 0.9}, {value: 1.0}]}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import PerModel, Stack, merge_method

if TYPE_CHECKING:
    from torch import Tensor


@merge_method(
    "passthrough",
    space="weight",
    models=(1, 1),
    latex=r"out = scale \cdot x",
)
def passthrough(model: Stack, *, scale: PerModel[float] = 1.0) -> Tensor:
    return (model * scale)[0]
