"""Average: the weighted mean of the models.

    out = sum_i w_i x_i / sum_i w_i            (normalize=false: sum_i w_i x_i)

Model soups, Wortsman et al. 2022, arXiv:2203.05482. The base is not counted. Weights that sum to zero are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import PerModel, Stack, merge_method
from smelt.ops.geometry import check_weights, normalised, weighted_sum

if TYPE_CHECKING:
    from torch import Tensor


@merge_method("average", space="weight", paper="2203.05482", prepare=check_weights)
def average(models: Stack, *, weights: PerModel[float] = 1.0, normalize: bool = True) -> Tensor:
    return weighted_sum(models, normalised(weights) if normalize else weights)
