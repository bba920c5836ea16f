"""Multi-slerp: weighted interpolation of any number of models on the sphere.

    u_i = x_i / |x_i|      m = sum_i w_i u_i normalised      v = sum_i w_i (u_i - <u_i, m> m)
    out = (cos|v| m + sin|v| v / |v|) * sum_i w_i |x_i|

Goddard 2025 (goddard.blog/posts/multislerp-wow-what-a-cool-idea). `around: base` works on changes from the base.

Use it for any number of models where the mean of their directions should keep their mean size. With `around: base`
that is felt: changes of different tasks are almost orthogonal, and their plain mean is short. Avoid it around the
origin for fine-tunes of one base: they are so nearly parallel that the result is their average, in clip8 to a tenth of
a point.

Its parameters:
    weights: how much each model counts; they must not sum to zero. Try `1` for all, or `0.5` to `2` to favour some.
    normalize: `true` divides the weights by their sum; `false` takes them as they are, and their sum scales the
        result.
    around: `origin` works on the weights, `base` on the changes from the base.

Example:
    merge: {multislerp: {around: base}}
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


@merge_method(
    "multislerp",
    space=_space,
    prepare=_interpolate,
    latex=(
        r"u_i = \frac{x_i}{|x_i|} \\ m = \frac{\sum_i w_i u_i}{\left|\sum_i w_i u_i\right|} \\ "
        r"v = \sum_i w_i \left(u_i - \langle u_i, m\rangle\, m\right) \\ "
        r"out = \left(\cos|v|\; m + \sin|v|\; \frac{v}{|v|}\right) \sum_i w_i |x_i|"
    ),
)
def multislerp(
    models: Stack,
    coefficients: Tensor,
    *,
    weights: PerModel[float] = 1.0,
    normalize: bool = True,
    around: Literal["origin", "base"] = "origin",
) -> Tensor:
    return weighted_sum(models, coefficients)
