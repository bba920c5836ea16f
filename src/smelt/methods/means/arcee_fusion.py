"""Arcee fusion: take over only the changes that stand out.

    importance = |d| * KL(softmax(x) || softmax(base)) of its row      out = base + d where importance >= cut
    cut = median + 1.5 * (upper quartile - lower quartile)             over the tensor

As mergekit documents it, but for convolutions: a row is all that belongs to one output, and mergekit's softmax runs
along the last axis. mergekit's quartiles come from up to a million random samples and change from run to run; these
are exact. The divergence is summed from terms that are all positive: for p and q, each an entry of a softmax and 1e-8,
q ((1 + t) log(1 + t) - t) with t = p / q - 1, which has the sum of p log(p / q), since both add up to the same.

Use it to take over from one model the changes that stand out in their tensor and leave everything else as it was. It
has nothing to set. Avoid it for more than one model, and where the whole change is wanted: most entries are left out,
also of a fine-tune whose small changes do the work together.

Example:
    merge: arcee_fusion
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from smelt.methods.method import Stack, merge_method
from smelt.ops.block import Block, Place
from smelt.ops.fold import Chain, RowNumbers
from smelt.ops.order import Cut, Largest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

_FLOOR = 1e-8


def _divergences(block: Block) -> Tensor:
    """Of each row. t comes from the changes: p - q would be the difference of nearly equal numbers."""
    import torch

    assert block.base is not None
    base, change = block.base.double(), block.stack[0].double()
    share = torch.softmax(base, -1)
    grown = torch.expm1(change.clamp_(-600, 600))
    mean = (share * grown).sum(-1, keepdim=True)
    floored = share + _FLOOR
    t = grown.sub_(mean).div_((1 + mean).clamp_min_(1e-300)).mul_(share).div_(floored)
    apart = torch.log1p(t).mul_(1 + t).sub_(t).mul_(floored)
    return apart.sum(-1).clamp_min_(0.0).float()


def _importance(deltas: Stack, divergences: NDArray[np.float32]) -> Tensor:
    import torch

    return deltas[0].abs() * torch.from_numpy(divergences).to(deltas.device)[:, None]


def _prepare() -> Chain:
    def ranks(row: int, count: int) -> list[int]:
        return [count - int(quantile * (count - 1)) for quantile in (0.25, 0.5, 0.75)]

    def quartiles(at: Callable[[Place], NDArray[np.float32]]) -> Largest:
        return Largest(ranks, values=lambda block: _importance(block.stack, at(block.place))[None], exact=False, rows=1)

    return Chain(RowNumbers(_divergences), quartiles)


def standing_out(quartiles: list[list[Cut]]) -> float:
    """The importance from which on a change is taken over."""
    lower, median, upper = (cut.value for cut in quartiles[0])
    return median + 1.5 * (upper - lower)


@merge_method(
    "arcee_fusion",
    unit="row",
    prepare=_prepare,
    models=(1, 1),
    exempt={"copies": "only the changes that stand out are taken over"},
    latex=(
        r"importance = |d| \cdot KL(p \,\|\, q) \\ p = softmax(x), \quad q = softmax(base) \\ "
        r"out = base + d\,[importance \ge cut] \\ "
        r"cut = Q_2 + 1.5\,(Q_3 - Q_1)"
    ),
)
def arcee_fusion(deltas: Stack, found: tuple[NDArray[np.float32], list[list[Cut]]]) -> Tensor:
    divergences, quartiles = found
    return deltas[0] * (_importance(deltas, divergences) >= standing_out(quartiles))
