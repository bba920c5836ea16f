"""Average: the weighted mean of the models.

    out = sum_i w_i x_i / sum_i w_i            (normalize=false: sum_i w_i x_i)

Model soups, Wortsman et al. 2022, arXiv:2203.05482. The base is not counted. Weights that sum to zero are refused.
"""

from __future__ import annotations

from torch import Tensor

from smelt.errors import RecipeError
from smelt.merge.method import PerModel, Stack, merge_method
from smelt.ops.geometry import weighted_sum


@merge_method("average", space="weight", paper="2203.05482")
def average(weights_of_models: Stack, *, weights: PerModel[float] = 1.0, normalize: bool = True) -> Tensor:
    total = float(weights.sum()) if normalize else 1.0
    if abs(total) < 1e-12:
        raise RecipeError("the weights sum to zero, so their mean does not exist; set normalize: false for the sum")
    return weighted_sum(weights_of_models, weights / total)
