"""Arcee fusion: take over only the changes that stand out.

    importance = |d| * KL(softmax(x) || softmax(base)) of its row      out = base + d where importance >= cut
    cut = median + 1.5 * (upper quartile - lower quartile)             over the tensor

As mergekit documents it. Its quartiles come from up to a million random samples and change from run to run; these
are exact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.merge.method import Stack, merge_method
from smelt.ops.block import Block
from smelt.ops.order import Cut, Largest

if TYPE_CHECKING:
    from torch import Tensor

_FLOOR = 1e-8


def _importance(deltas: Stack, base: Tensor) -> Tensor:
    import torch

    # in float32 the divergence of a usual fine-tune is all rounding error
    ours = torch.softmax(deltas[0].double() + base, -1) + _FLOOR
    theirs = torch.softmax(base.double(), -1) + _FLOOR
    divergence = (ours * torch.log(ours / theirs)).sum(-1, keepdim=True).clamp_min_(0.0)
    return deltas[0].abs() * divergence.float()


def _of_block(block: Block) -> Tensor:
    assert block.base is not None
    return _importance(block.stack, block.base)[None]


def _quartiles() -> Largest:
    def ranks(row: int, count: int) -> list[int]:
        return [count - int(quantile * (count - 1)) for quantile in (0.25, 0.5, 0.75)]

    return Largest(ranks, values=_of_block, exact=False)


@merge_method(
    "arcee_fusion",
    unit="row",
    prepare=_quartiles,
    models=(1, 1),
    exempt={"copies": "only the changes that stand out are taken over"},
)
def arcee_fusion(deltas: Stack, base: Tensor, quartiles: list[list[Cut]]) -> Tensor:
    lower, median, upper = (cut.value for cut in quartiles[0])
    cut = median + 1.5 * (upper - lower)
    return deltas[0] * (_importance(deltas, base) >= cut)
