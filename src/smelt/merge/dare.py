"""DARE: drop changes at random and rescale the rest.

    keep each entry with probability `density`, divide what is kept by it

Yu et al. 2023, arXiv:2311.03099. A step before any method. The drops belong to the place (seed, tensor, model,
index), so they do not depend on the order of work. `rescale: l1` divides so that each tensor's summed magnitude
stays what it was, which is what mergekit does; `none` leaves the survivors as they are.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from smelt.merge.method import Fraction, PerModel, Stack, merge_step
from smelt.ops.block import Block
from smelt.ops.fold import Sum
from smelt.ops.prune import l1_factors
from smelt.ops.random import PlaceRandom


def _norms(density: list[float], rescale: str) -> Sum | None:
    return l1_factors(lambda block: _kept(block, density)) if rescale == "l1" else None


def _kept(block: Block, density: list[float]) -> Stack:
    assert block.rng is not None
    column = block.stack.new_tensor(density).view(-1, *[1] * (block.stack.ndim - 1))
    return block.stack * block.rng.keep(column, block.stack)


@merge_step(
    "dare",
    paper="2311.03099",
    prepare=_norms,
    exempt={"copies": "copies drop different entries"},
)
def dare(
    deltas: Stack,
    rng: PlaceRandom,
    l1: Tensor | None,
    *,
    density: PerModel[Fraction] = 0.1,
    rescale: Literal["density", "l1", "none"] = "density",
) -> Stack:
    kept = deltas * rng.keep(density, deltas)
    if rescale == "density":
        return kept.div_(density)
    return kept.mul_(l1.to(kept).view(density.shape)) if l1 is not None else kept
