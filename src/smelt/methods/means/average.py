"""Average: the weighted mean of the models.

    out = sum_i w_i x_i / sum_i w_i            (normalize=false: sum_i w_i x_i)

Model soups, Wortsman et al. 2022, arXiv:2203.05482. The base is not counted. Weights that sum to zero are refused.

Use it as the first thing to try, and for models of one task: checkpoints of one run, or fine-tunes with other seeds.
It needs no base, no data and no setting. Of ten small adapters in mllm10 it made the best merge. Avoid it for full
fine-tunes on many tasks: each change arrives divided by the number of models, so that the merge stays close to the
base, as in clip8. `task_arithmetic` adds more of each.

Its parameters:
    weights: how much each model counts; only the ratios matter, unless `normalize` is false. Try `1` for all, or `0.5`
        to `2` to favour some.
    normalize: `true` divides by the sum of the weights; `false` takes them as they are.

Example:
    merge: {average: {weights: {digits: 2, flags: 1, letters: 1}}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import PerModel, Stack, merge_method
from smelt.ops.geometry import check_weights, normalised, weighted_sum

if TYPE_CHECKING:
    from torch import Tensor


@merge_method(
    "average",
    space="weight",
    paper="2203.05482",
    prepare=check_weights,
    latex=r"out = \frac{\sum_i w_i x_i}{\sum_i w_i}",
)
def average(models: Stack, *, weights: PerModel[float] = 1.0, normalize: bool = True) -> Tensor:
    return weighted_sum(models, normalised(weights) if normalize else weights)
