"""Trim: keep only the largest changes of each model.

    keep the `density` share of |d| that is largest, over the whole model or in each tensor; the rest becomes zero

The first third of TIES as a step of its own, before any method. In a tensor at least one entry stays. `rescale: l1`
multiplies what stays so that the summed magnitude is what it was, of the model or of the tensor as `trim` says.

Use it before a method that has no trim of its own, or to see what the trim of `ties` does by itself. Most of a
fine-tune's effect lies in its largest changes. Avoid it before `ties` or `localize_and_stitch`, which trim themselves,
and for low-rank adapters, whose size is spread over all entries (`knots` first).

Its parameters:
    density: the share of the entries that stays, the largest. Try `0.05` to `0.5`.
    trim: `model` ranks all entries of a model together, so that layers which changed more keep more; `tensor` ranks in
        each tensor.
    rescale: `none` leaves what stays as it is; `l1` multiplies it so that the summed magnitude is what it was.

Example:
    merge: [{trim: {density: 0.2, rescale: l1}}, {task_arithmetic: {scale: 0.3}}]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from smelt.methods.method import Fraction, PerModel, Stack, merge_step
from smelt.ops.fold import Fold
from smelt.ops.order import Cut, keep_shares
from smelt.ops.prune import as_column, keep_rows, with_l1

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def _cuts(density: list[float], trim: Literal["model", "tensor"], rescale: str) -> Fold | None:
    cuts = keep_shares(density, scope=trim)
    return with_l1(cuts, _keep) if cuts and rescale == "l1" else cuts


def _keep(deltas: Stack, cuts: list[list[Cut]]) -> Stack:
    return keep_rows(deltas, [row[0] for row in cuts])


@merge_step(
    "trim",
    prepare=_cuts,
    exempt={"copies": "a trimmed change is not the whole change"},
    latex=(
        r"d'_k = d_k \left[\,rank\,|d_k| < density \cdot N\,\right] \\ "
        r"\text{ranks among all } N \text{ entries, the largest first}"
    ),
)
def trim(
    deltas: Stack,
    found: list[list[Cut]] | tuple[list[list[Cut]], NDArray[np.float64]] | None,
    *,
    density: PerModel[Fraction] = 0.2,
    trim: Literal["model", "tensor"] = "model",
    rescale: Literal["none", "l1"] = "none",
) -> Stack:
    if found is None:
        return deltas
    if isinstance(found, tuple):
        cuts, factors = found
        return _keep(deltas, cuts).mul_(as_column(factors, deltas))
    return _keep(deltas, found)
