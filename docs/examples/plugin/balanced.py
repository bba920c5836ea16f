"""Balanced mean: every model's change counts by its direction, not by its size.

    n_i = |d_i| over the tensor      out = base + scale * mean(n) * sum_i w_i d_i / n_i / sum_i w_i
    mean(n) = sum_i w_i n_i / sum_i w_i

An example for docs/how-to/write-a-method.md; not from a paper. A model that left the tensor untouched adds nothing.

Use it for models of equal standing whose changes differ much in size, as after trainings of different length. Avoid it
where a large change is large for a reason.

Its parameters:
    weights: how much each model counts; only the ratios matter. Try `1` for all, or `0.5` to `2` to favour some.
    scale: multiplies the merged change. Try `0.5` to `1`.

Example:
    merge: {balanced: {scale: 1.0}}
"""

from __future__ import annotations

import torch
from torch import Tensor

from smelt.methods import PerModel, Positive, Stack, merge_method
from smelt.ops.block import Block
from smelt.ops.fold import Sum
from smelt.ops.geometry import weighted_sum


def _factors(weights: list[float]) -> Sum:
    """What each model's change is multiplied by: found from the squared norms of the whole tensor."""
    shares = torch.tensor(weights, dtype=torch.float64) / sum(weights)

    def squares(block: Block) -> Tensor:
        return block.stack.flatten(1).double().square().sum(1)

    def factors(total: Tensor) -> Tensor:
        norms = total.sqrt()
        return torch.where(norms > 0, shares * (shares @ norms) / norms.clamp_min(1e-300), 0.0)

    return Sum(squares, factors)


@merge_method("balanced", prepare=_factors)
def balanced(deltas: Stack, factors: Tensor, *, weights: PerModel[Positive] = 1.0, scale: float = 1.0) -> Tensor:
    return weighted_sum(deltas, factors * scale)
