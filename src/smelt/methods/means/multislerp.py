"""Multi-slerp: weighted interpolation of any number of models on the sphere.

    u_i = x_i / |x_i|      m = sum_i w_i u_i normalised      v = sum_i w_i (u_i - <u_i, m> m)
    out = (cos|v| m + sin|v| v / |v|) * sum_i w_i |x_i|

Goddard 2025 (goddard.blog/posts/multislerp-wow-what-a-cool-idea). `around: base` works on changes from the base.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from smelt.errors import RecipeError
from smelt.methods.method import PerModel, Space, Stack, merge_method
from smelt.ops.fold import Totals
from smelt.ops.geometry import gram, weighted_sum
from smelt.ops.sphere import multislerp_weights

if TYPE_CHECKING:
    from torch import Tensor


def _interpolate(weights: list[float], normalize: bool) -> Totals:
    total = sum(weights) if normalize else 1.0
    if abs(total) < 1e-12:
        raise RecipeError("multislerp: the weights sum to zero")
    return Totals(gram, lambda products: multislerp_weights(products, [w / total for w in weights]))


def _space(around: str) -> Space:
    return "weight" if around == "origin" else "delta"


@merge_method("multislerp", space=_space, prepare=_interpolate)
def multislerp(
    models: Stack,
    coefficients: Tensor,
    *,
    weights: PerModel[float] = 1.0,
    normalize: bool = True,
    around: Literal["origin", "base"] = "origin",
) -> Tensor:
    return weighted_sum(models, coefficients)
