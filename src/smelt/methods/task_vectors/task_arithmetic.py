"""Task arithmetic: add the scaled sum of the models' changes to the base.

    out = base + scale * sum_i w_i d_i         (normalize=true: divided by sum_i w_i)

Ilharco et al. 2023, arXiv:2212.04089.

Use it as the baseline for experts of several tasks: one number to tune, cheap, and a search over `scale` merges once
for all values. A negative scale takes a skill away. Avoid it as the last word: changes that collide are simply added,
and in clip8 `tsv`, `wudi` and, once its scale was tuned, `ties` stood above it. Networks with BatchNorm need its
statistics estimated again after the merge.

Its parameters:
    scale: multiplies the summed changes. Try `0.2` to `0.5` for several models, `1` for one, `-1` to `-0.3` to remove
        what it learned.
    weights: how much each model's change counts. Try `1` for all, or `0.5` to `2` to favour some.
    normalize: `false` takes the weighted sum; `true` divides it by the sum of the weights, so that scale 1 is the mean
        of the changes.

Example:
    merge: {task_arithmetic: {scale: 0.4}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import PerModel, Stack, merge_method
from smelt.ops.geometry import check_weights, normalised, weighted_sum

if TYPE_CHECKING:
    from torch import Tensor


@merge_method(
    "task_arithmetic",
    paper="2212.04089",
    prepare=check_weights,
    stretches=True,
    exempt={"copies": "a sum of n equal changes is n changes, by definition"},
    latex=r"out = base + scale \sum_i w_i d_i",
)
def task_arithmetic(
    deltas: Stack, *, scale: float = 0.3, weights: PerModel[float] = 1.0, normalize: bool = False
) -> Tensor:
    return weighted_sum(deltas, normalised(weights) if normalize else weights).mul_(scale)
