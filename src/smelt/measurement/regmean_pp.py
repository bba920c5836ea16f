"""RegMean++: RegMean whose layers are solved one after the other, each on inputs that come from merged layers.

    G_i(l) = mean of x xᵀ at layer l on task i's own data, x having passed the merged layers 1 … l-1
    W(l) = (sum_i W_i(l) H_i) (sum_i H_i)^-1               as `regmean` does

The merged model feeds a layer with what merged layers give it, and not with what each model's own layers would give.
`step: layer` merges everything before a layer, `step: block` everything before its block (as the released code does),
which takes fewer passes over the data. What is measured are Gram matrices, which the stage `regmean` then reads.

Nguyen et al. 2025, arXiv:2508.03121.

Use it in place of `regmean` where the same examples are at hand and a few times the measuring is no matter; in clip8 it
gained more than a point. Avoid it for deep models on slow machines: the data pass through the merged layers again for
every layer.

Its parameters:
    reduction: what off-diagonal entries of the Gram matrices are multiplied by. Try `0.9` to `1` for vision models,
        `0.1` to `0.9` for language models.
    ridge: how strongly the solution is drawn to the plain average, relative to the mean diagonal. Try `1e-6` to `1e-2`.
    step: how much is merged before the next inputs are measured: `layer` a layer at a time, `block` a block, which
        takes fewer passes.

Example:
    merge: {regmean_pp: {reduction: 0.95, step: block}}
    data: {split: train, examples: 256}
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from smelt.methods.statistics.regmean import NotNegative, Share

__all__ = ["LATEX", "RegMeanPlus"]

LATEX = (
    r"G_i(l) = mean_x\; x\,x^{\top} \\ \qquad x \text{ having passed the merged layers} \\ "
    r"W(l) = \left(\sum_i W_i(l)\, H_i(l)\right) \left(\sum_i H_i(l)\right)^{-1}"
)


@dataclass(frozen=True, kw_only=True)
class RegMeanPlus:
    __doc__ = __doc__

    reduction: Share = 0.95
    ridge: NotNegative = 1e-6
    step: Literal["layer", "block"] = "layer"
