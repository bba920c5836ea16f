"""The plain baseline: task arithmetic, then the merged weights themselves are tuned on the same data.

    W = base + scale sum_i τ_i       min_W  sum_t  mean_x  loss( f_t(W, x) )

What every other learner has to be compared with: it has the same data, the same loss and no idea of merging. Its result
is a whole model.

Use it as the yardstick for `adamerging` and the like: the same data and loss, spent on the weights themselves. Avoid it
as a merge: with the entropy alone all weights are free to make the model sure and wrong, and in clip8 it ended below
the task arithmetic that it began with.

Its parameters:
    scale: of the task arithmetic that it begins with. Try `0.2` to `0.5`.
    lr: Adam's learning rate. Try `1e-6` to `1e-4`.
    steps: how often the weights are changed. Try `200` to `1000`.
    batch: examples of each task in a step. Try `8` to `64`.
    loss: what falls: the `entropy` of the answers, or the cross-entropy with the `labels`.
    delta_dtype: the format of the changes that are summed at the start: `float32`, or `bfloat16` or `float16` for half
        the memory.

Example:
    merge: {tuned: {scale: 0.3, steps: 500}}
    data: {split: val}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from smelt.learning.differentiable_merge import MergedObjective
from smelt.learning.learner import Count, LearnedMerge, Work, learner
from smelt.learning.task_vectors import DeltaDtype, TaskVectors
from smelt.methods.method import Positive
from smelt.optimise.losses import Loss

if TYPE_CHECKING:
    from torch import Tensor


class _Free:
    """Weights that depend on nothing but themselves."""

    def __init__(self, weights: Mapping[str, Tensor]):
        self.parameters = dict(weights)
        self.keys = tuple(weights)

    def weight(self, key: str) -> Tensor:
        return self.parameters[key]

    def pull(self, key: str, gradient: Tensor, into: Mapping[str, Tensor]) -> None:
        into[key].add_(gradient)

    def settle(self, gradients: Mapping[str, Tensor]) -> None:
        """Nothing is added to the loss."""


@learner(
    "tuned",
    latex=r"W = base + scale \sum_i d_i \\ \min_W \sum_t mean_x\; loss\left(f_t(W, x)\right)",
)
def tuned(
    work: Work,
    *,
    scale: float = 0.3,
    lr: Positive = 1e-5,
    steps: Count = 1000,
    batch: Count = 16,
    loss: Loss = "entropy",
    delta_dtype: DeltaDtype = "float32",
) -> LearnedMerge:
    merge = _Free(_task_arithmetic(work.deltas(dtype=delta_dtype), scale))
    trace = work.optimise(MergedObjective(merge, work.passes, loss), steps=steps, lr=lr, batch=batch)
    return LearnedMerge([{"passthrough": {}}], trace, weights=merge.parameters)


def _task_arithmetic(deltas: TaskVectors, scale: float) -> dict[str, Tensor]:
    start = {}
    for key, base in deltas.base.items():
        start[key] = base.clone()
        for row in deltas.rows(key):
            start[key].view(-1).add_(row, alpha=scale)
    return start
