"""Slerp: spherical interpolation between two models, tensor by tensor.

    out = sin((1-t) a) / sin a * x_1 + sin(t a) / sin a * x_2        a = angle between the flattened tensors

Shoemake 1985. Above a cosine of 0.9995 the interpolation is linear. By weights, per row or around a base: nuslerp.
More than two models: multislerp, karcher.

Use it between two models that are far apart, where the chord that `average` takes would make the weights smaller.
Avoid it for two fine-tunes of one base: their weights are almost parallel, and above a cosine of 0.9995 this is the
linear interpolation, which `average` with weights gives too.

Its parameters:
    t: how far to go from the first model (0) to the second (1). Try `0.3` to `0.7`.

Example:
    merge: {slerp: {t: 0.4}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import Stack, merge_method
from smelt.ops.fold import Totals
from smelt.ops.geometry import gram, weighted_sum
from smelt.ops.sphere import slerp_weights

if TYPE_CHECKING:
    from torch import Tensor


def _interpolate(t: float) -> Totals:
    return Totals(gram, lambda total: slerp_weights(total, t))


@merge_method(
    "slerp",
    space="weight",
    prepare=_interpolate,
    models=(2, 2),
    exempt={"order": "t runs from the first model to the second"},
    latex=(
        r"out = \frac{\sin\left((1-t)\,a\right)}{\sin a}\,x_1 + \frac{\sin(t\,a)}{\sin a}\,x_2 \\ "
        r"\cos a = \frac{\langle x_1, x_2\rangle}{|x_1|\,|x_2|}"
    ),
)
def slerp(pair: Stack, coefficients: Tensor, *, t: float = 0.5) -> Tensor:
    return weighted_sum(pair, coefficients)
