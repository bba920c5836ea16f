"""RegMean++: RegMean whose layers are solved one after the other, each on inputs that come from merged layers.

    G_i(l) = mean of x xᵀ at layer l on task i's own data, x having passed the merged layers 1 … l-1
    W(l) = (sum_i W_i(l) H_i) (sum_i H_i)^-1               as `regmean` does

The merged model feeds a layer with what merged layers give it, and not with what each model's own layers would give.
`step: layer` merges everything before a layer, `step: block` everything before its block (as the released code does),
which takes fewer passes over the data. What is measured are Gram matrices, which the stage `regmean` then reads.

Nguyen et al. 2025, arXiv:2508.03121.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from smelt.methods.statistics.regmean import NotNegative, Share

__all__ = ["RegMeanPlus"]


@dataclass(frozen=True, kw_only=True)
class RegMeanPlus:
    __doc__ = __doc__

    reduction: Share = 0.95
    """What off-diagonals are multiplied with."""
    ridge: NotNegative = 1e-6
    """Relative to the mean diagonal."""
    step: Literal["layer", "block"] = "layer"
