"""Trim: keep only the largest changes of each model.

    keep the `density` share of |d| that is largest, over the whole model or in each tensor; the rest becomes zero

The first third of TIES as a step of its own, before any method. In a tensor at least one entry stays. `rescale: l1`
multiplies what stays so that the summed magnitude is what it was, of the model or of the tensor as `trim` says.
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


@merge_step("trim", prepare=_cuts, exempt={"copies": "a trimmed change is not the whole change"})
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
