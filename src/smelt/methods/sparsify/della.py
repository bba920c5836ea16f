"""DELLA: drop changes at random, the small ones more likely, and rescale by each one's chance.

    p = density - window/2 + window * (rank + 1/2) / columns    rank = how many in the row are smaller in magnitude
    keep each entry with probability p, divide what is kept by p

Deep et al. 2024, arXiv:2406.11617. A step before any method. A row is all that belongs to one output unit; equal
magnitudes share the middle of their ranks, so that `density` is the expected share whatever the ties (the paper has
no half, mergekit divides by columns - 1). mergekit's `epsilon` is window/2, and it rescales by the tensor's summed
magnitude instead (`rescale: l1`); in a tensor of three or four axes it ranks along the second one only.

Use it in place of `dare` where large entries should survive more often than small ones, so that less of the drop is
chance. Avoid it where time matters: it sorts every row, which costs more than the merge itself, and in clip8 it
left task arithmetic where it was.

Its parameters:
    density: the mean chance of an entry to be kept. Try `0.3` to `0.7`.
    window: how far the chances of the smallest and the largest entry of a row lie apart; density ± window/2 must stay
        between 0 and 1. Try `0.1` to `0.4`.
    rescale: `probability` divides each kept entry by its own chance, as the paper does; `l1` restores each tensor's
        summed magnitude, as mergekit does; `none` leaves it.

Example:
    merge: [{della: {density: 0.5, window: 0.3}}, {task_arithmetic: {scale: 0.3}}]
    seed: 1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from smelt.errors import RecipeError
from smelt.methods.method import Fraction, PerModel, Stack, merge_step
from smelt.ops.block import Block
from smelt.ops.prune import Bits, DrawnMask, keep_drawn, ranks_in_rows, sorted_magnitudes
from smelt.ops.random import PlaceRandom

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor


def _kept(deltas: Stack, rng: PlaceRandom, density: Tensor, window: Tensor) -> Tensor:
    """1.0 where an entry stays: its rank exceeds (u - lowest p) / window * columns, for u uniform in [0, 1).

    So the magnitude at that rank decides, and only the magnitudes need sorting, not the entries. Of entries equal to
    it (the entry itself among them) the half stays for which that number's fraction is below 1/2.
    """
    import torch

    columns = deltas.shape[-1]
    lowest, width = density - window / 2, (window / columns).clamp_min(1e-30)
    exact = rng.uniform(deltas).sub_(lowest).div_(width)
    bound = exact.floor()
    index = bound.clamp(0, columns - 1).to(torch.int64)
    there = sorted_magnitudes(deltas).gather(-1, index)
    above = torch.sub(deltas.abs(), there, out=there).sign_()
    half = exact.sub_(bound).neg_().add_(0.5).sign_()
    kept = above.mul_(2.0).add_(half).sign_().clamp_min_(0.0)
    sure = bound.clamp(-1.0, columns).sub_(bound.clamp(0.0, columns - 1.0))  # -1: kept whatever the rank, 1: dropped
    return kept.sub_(sure).clamp_(0.0, 1.0)


def _draw(block: Block, density: list[float], window: list[float]) -> Tensor:
    assert block.rng is not None
    shape = (-1, *[1] * (block.stack.ndim - 1))
    columns = (block.stack.new_tensor(values).view(shape) for values in (density, window))
    return _kept(block.stack, block.rng, *columns)


def _prepare(density: list[float], window: list[float], rescale: str) -> DrawnMask | None:
    for d, w in zip(density, window, strict=True):
        if d < 1 and not (d - w / 2 > 0 and d + w / 2 <= 1):
            raise RecipeError(
                f"della: density {d} with window {w} leaves the range of probabilities; narrow the window"
            )
    if rescale != "l1":
        return None
    width = [w if d < 1 else 0.0 for d, w in zip(density, window, strict=True)]
    return DrawnMask(lambda block: _draw(block, density, width))


@merge_step(
    "della",
    unit="row",
    paper="2406.11617",
    prepare=_prepare,
    exempt={"copies": "copies drop different entries"},
    latex=(
        r"p_k = density + window \left(\frac{rank_k + \tfrac12}{columns} - \tfrac12\right) \\ "
        r"d'_k = \frac{b_k}{p_k}\, d_k \\ b_k \sim Bernoulli(p_k)"
    ),
)
def della(
    deltas: Stack,
    rng: PlaceRandom,
    drawn: tuple[Bits, NDArray[np.float64]] | None,
    *,
    density: PerModel[Fraction] = 0.5,
    window: PerModel[Fraction] = 0.3,
    rescale: Literal["probability", "l1", "none"] = "probability",
) -> Stack:
    if drawn is not None:
        return keep_drawn(deltas, drawn)
    window = window * (density < 1)
    kept = deltas * _kept(deltas, rng, density, window)
    if rescale == "none":
        return kept
    chances = ranks_in_rows(deltas).mul_(window / deltas.shape[-1]).add_(density - window / 2)
    return kept.div_(chances)
