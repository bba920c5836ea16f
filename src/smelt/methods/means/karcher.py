"""Karcher mean: the point on the sphere with the least squared angles to all models, times their mean norm.

    repeat: v = sum_i w_i log_m(u_i);  m = exp_m(v)       out = m * sum_i w_i |x_i|

Karcher 1977; for models arXiv:2603.04972. The iteration runs on the models' Gram matrix, so it costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from smelt.errors import RecipeError
from smelt.methods.method import PerModel, Positive, Stack, merge_method
from smelt.ops.fold import Totals
from smelt.ops.geometry import gram, weighted_sum
from smelt.ops.sphere import karcher_weights

if TYPE_CHECKING:
    from torch import Tensor


def _mean(weights: list[float], iterations: int, tolerance: float) -> Totals:
    total = sum(weights)
    if min(weights) < 0 or total <= 0:
        raise RecipeError("karcher: weights must be positive")
    shares = [w / total for w in weights]
    return Totals(gram, lambda products: karcher_weights(products, shares, iterations, tolerance))


@merge_method("karcher", space="weight", paper="2603.04972", prepare=_mean)
def karcher(
    models: Stack,
    coefficients: Tensor,
    *,
    weights: PerModel[float] = 1.0,
    iterations: Annotated[int, Field(ge=1)] = 10,
    tolerance: Positive = 1e-5,
) -> Tensor:
    return weighted_sum(models, coefficients)
