"""DELLA: drop changes at random, the small ones more likely, and rescale by each one's chance.

    p = density - window/2 + window * rank / (columns - 1)      rank of |d| in its row, 0 the smallest
    keep each entry with probability p, divide what is kept by p

Deep et al. 2024, arXiv:2406.11617. A step before any method. mergekit's `epsilon` is window/2, and it rescales by
the tensor's summed magnitude instead (`rescale: l1`). A row is all that belongs to one output unit.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from smelt.errors import RecipeError
from smelt.merge.method import Fraction, PerModel, Stack, merge_step
from smelt.ops.block import Block
from smelt.ops.fold import Sum
from smelt.ops.prune import l1_factors, ranks_in_rows
from smelt.ops.random import PlaceRandom


def _norms(density: list[float], window: list[float], rescale: str) -> Sum | None:
    for d, w in zip(density, window, strict=True):
        if d < 1 and not (d - w / 2 > 0 and d + w / 2 <= 1):
            raise RecipeError(f"della: density {d} with window {w} leaves the range of probabilities; narrow the window")
    return l1_factors(lambda block: _kept(block, density, window)) if rescale == "l1" else None


def _kept(block: Block, density: list[float], window: list[float]) -> Stack:
    assert block.rng is not None
    shape = (-1, *[1] * (block.stack.ndim - 1))
    chance = _chances(block.stack, block.stack.new_tensor(density).view(shape), block.stack.new_tensor(window).view(shape))
    return block.stack * block.rng.keep(chance, block.stack)


def _chances(deltas: Stack, density: Tensor, window: Tensor) -> Tensor:
    """Each entry's probability to stay; a model of density 1 keeps everything."""
    window = window * (density < 1)
    ranks = ranks_in_rows(deltas).div_(max(1, deltas.shape[-1] - 1))
    return ranks.mul_(window).add_(density - window / 2)


@merge_step("della", unit="row", paper="2406.11617", prepare=_norms, exempt={"copies": "copies drop different entries"})
def della(
    deltas: Stack,
    rng: PlaceRandom,
    l1: Tensor | None,
    *,
    density: PerModel[Fraction] = 0.5,
    window: PerModel[Fraction] = 0.3,
    rescale: Literal["probability", "l1", "none"] = "probability",
) -> Stack:
    chances = _chances(deltas, density, window)
    kept = deltas * rng.keep(chances, deltas)
    if rescale == "probability":
        return kept.div_(chances)
    return kept.mul_(l1.to(kept.device, torch.float32).view(density.shape)) if l1 is not None else kept
