"""Task arithmetic: add the scaled sum of the models' changes to the base.

    out = base + scale * sum_i w_i d_i         (normalize=true: divided by sum_i w_i)

Ilharco et al. 2023, arXiv:2212.04089.
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
)
def task_arithmetic(
    deltas: Stack, *, scale: float = 0.3, weights: PerModel[float] = 1.0, normalize: bool = False
) -> Tensor:
    return weighted_sum(deltas, normalised(weights) if normalize else weights).mul_(scale)
