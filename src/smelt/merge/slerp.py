"""Slerp: spherical interpolation between two models, tensor by tensor.

    out = sin((1-t) a) / sin a * x_1 + sin(t a) / sin a * x_2        a = angle between the flattened tensors

Shoemake 1985. Above a cosine of 0.9995 the interpolation is linear. `over: row` interpolates each output unit on its
own, `column` each input. `around: base` interpolates the changes from the base instead of the weights. More than two
models: multislerp, karcher.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from smelt.merge.method import Space, Stack, Unit, merge_method
from smelt.ops.fold import Sum
from smelt.ops.geometry import gram, row_gram, slerp_weights, weighted_sum


def _interpolate(t: float, over: str) -> Sum | None:
    return Sum(gram, lambda total: slerp_weights(total, t)) if over == "tensor" else None


def _unit(over: str) -> Unit:
    units: dict[str, Unit] = {"tensor": "element", "row": "row", "column": "tensor"}
    return units[over]


def _space(around: str) -> Space:
    return "weight" if around == "origin" else "delta"


@merge_method(
    "slerp",
    space=_space,
    unit=_unit,
    prepare=_interpolate,
    models=(2, 2),
    exempt={"order": "t runs from the first model to the second"},
)
def slerp(
    pair: Stack,
    weights: Tensor | None,
    *,
    t: float = 0.5,
    over: Literal["tensor", "row", "column"] = "tensor",
    around: Literal["origin", "base"] = "origin",
) -> Tensor:
    if weights is not None:
        return weighted_sum(pair, weights)
    vectors = pair.flatten(2) if over == "row" else pair.mT if pair.ndim > 2 else pair[:, None]
    by_vector = slerp_weights(row_gram(vectors), t).to(pair.dtype)
    merged = vectors[0] * by_vector[:, :1] + vectors[1] * by_vector[:, 1:]
    if over == "column" and pair.ndim > 2:
        merged = merged.mT
    return torch.reshape(merged, pair.shape[1:])
