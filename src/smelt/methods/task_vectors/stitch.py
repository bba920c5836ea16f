"""Localize-and-Stitch with learned masks: each model changes the base where its mask says so, overlaps are averaged.

    out = base + sum_i m_i d_i / max(1, sum_i m_i)

m_i is 0 or 1 for every weight, learned on a few labelled examples of model i's task: `smelt learn` with `localize`.
Without data, `localize_and_stitch` takes the largest changes instead. Tensors without masks get the mean change.

He et al. 2024, arXiv:2408.13656. Differs from the released code: where k masks overlap each contributes 1/k (theirs is
wrong for k = 3).

Use it after `localize`, which learns the masks and calls it; or by hand with masks of your own under `statistics`.
Avoid it without masks: `localize_and_stitch` takes the largest changes instead.

Example:
    merge: localize
    data: {split: train, examples: 1000}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import Stack, merge_method
from smelt.ops.geometry import total

if TYPE_CHECKING:
    from torch import Tensor


@merge_method(
    "stitch",
    statistics="mask",
    paper="2408.13656",
    exempt={"copies": "what no mask keeps stays the base's, however many copies there are"},
    latex=r"out = base + \frac{\sum_i m_i d_i}{\max\left(1, \sum_i m_i\right)}",
)
def stitch(deltas: Stack, statistics: Stack) -> Tensor:
    return total(deltas * statistics).div_(total(statistics).clamp_min_(1.0))
