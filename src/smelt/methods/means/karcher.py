"""Karcher mean: the point on the sphere with the least squared angles to all models, times their mean norm.

    repeat: v = sum_i w_i log_m(u_i);  m = exp_m(v)       out = m * sum_i w_i |x_i|

Karcher 1977; for models arXiv:2603.04972. The iteration runs on the models' Gram matrix, so it costs nothing.

Use it where the exact mean on the sphere is wanted, of which `multislerp` is the first step; it costs no more. Avoid
it for fine-tunes of one base: they are so nearly parallel that the result is their average, in clip8 to a tenth of a
point.

Its parameters:
    weights: how much each model counts; positive, and only the ratios matter. Try `1` for all, or `0.5` to `2` to
        favour some.
    iterations: at most so many steps; they run on a few numbers per tensor and cost nothing. Try `10` to `100`.
    tolerance: it stops when a step is shorter than this angle, in radians. Try `1e-8` to `1e-5`.

Example:
    merge: {karcher: {iterations: 50, tolerance: 1.0e-8}}
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


@merge_method(
    "karcher",
    space="weight",
    paper="2603.04972",
    prepare=_mean,
    latex=(
        r"v = \sum_i w_i \log_m(u_i) \\ m \leftarrow \exp_m(v) \\ \text{until } |v| < tolerance \\ "
        r"out = m \sum_i w_i |x_i|"
    ),
)
def karcher(
    models: Stack,
    coefficients: Tensor,
    *,
    weights: PerModel[float] = 1.0,
    iterations: Annotated[int, Field(ge=1)] = 10,
    tolerance: Positive = 1e-5,
) -> Tensor:
    return weighted_sum(models, coefficients)
