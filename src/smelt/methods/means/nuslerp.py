"""NuSlerp: spherical interpolation of two models by weights, whole, per row or per column.

    t = w_2 / (w_1 + w_2)      out = sin((1-t) a) / sin a * x_1 + sin(t a) / sin a * x_2        a = angle between them

As mergekit documents it: `over: row` interpolates each output unit on its own (its `nuslerp_flatten: false`), `column`
each input (its `nuslerp_row_wise: true`, whose name says the opposite). `around: base` interpolates the changes from
the base. Only exactly parallel vectors are interpolated linearly. A row of a convolution is all of its kernels for one
output; mergekit's are the runs along the last axis.

Use it to interpolate what two models changed (`around: base`), where the angles are large enough to matter, or to give
each output unit an angle of its own. Avoid it for more than two models (`multislerp`), and for changes that nearly
oppose each other: the arc between them is then not well defined.

Its parameters:
    weights: how much each of the two counts; only the ratio matters. Try `1` for both, or `1` and `3` to stay close to
        the second.
    over: what has an angle of its own: `tensor` the whole tensor, `row` each output unit, `column` each input.
    around: `origin` interpolates the weights, `base` the changes from the base.

Example:
    merge: {nuslerp: {weights: {digits: 1, flags: 2}, over: row, around: base}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from smelt.errors import RecipeError
from smelt.methods.method import PerModel, Space, Stack, Unit, merge_method
from smelt.ops.fold import Totals
from smelt.ops.geometry import gram, row_gram, weighted_sum
from smelt.ops.sphere import slerp_weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

_PARALLEL = 1 - 1e-12


def _t(weights: list[float]) -> float:
    if abs(sum(weights)) < 1e-12:
        raise RecipeError("nuslerp: the weights sum to zero")
    return weights[1] / sum(weights)


def _interpolate(weights: list[float], over: str) -> Totals | None:
    t = _t(weights)
    return Totals(gram, lambda total: slerp_weights(total, t, _PARALLEL)) if over == "tensor" else None


def row_weights(grams: NDArray[np.float64], weights: list[float]) -> NDArray[np.float64]:
    """The two factors of each of the pairs that these Gram matrices (pairs, 2, 2) belong to."""
    return slerp_weights(grams, _t(weights), _PARALLEL)


def _unit(over: str) -> Unit:
    units: dict[str, Unit] = {"tensor": "element", "row": "row", "column": "tensor"}
    return units[over]


def _space(around: str) -> Space:
    return "weight" if around == "origin" else "delta"


@merge_method(
    "nuslerp",
    space=_space,
    unit=_unit,
    prepare=_interpolate,
    models=(2, 2),
    latex=(
        r"t = \frac{w_2}{w_1 + w_2} \\ "
        r"out = \frac{\sin\left((1-t)\,a\right)}{\sin a}\,x_1 + \frac{\sin(t\,a)}{\sin a}\,x_2"
    ),
)
def nuslerp(
    pair: Stack,
    coefficients: Tensor | None,
    *,
    weights: PerModel[float] = 1.0,
    over: Literal["tensor", "row", "column"] = "tensor",
    around: Literal["origin", "base"] = "origin",
) -> Tensor:
    import torch

    if coefficients is not None:
        return weighted_sum(pair, coefficients)
    columns = over == "column" and pair.ndim > 2
    vectors = pair.flatten(2).mT if columns else pair.flatten(2) if over == "row" else pair.reshape(2, 1, -1)
    found = row_weights(row_gram(vectors).cpu().numpy(), weights.flatten().tolist())
    by_vector = torch.from_numpy(found).to(pair)
    merged = vectors[0] * by_vector[:, :1] + vectors[1] * by_vector[:, 1:]
    return (merged.mT if columns else merged).reshape(pair.shape[1:])
