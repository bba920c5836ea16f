"""DARE: drop changes at random and rescale the rest.

    keep each entry with probability `density`, divide what is kept by it

Yu et al. 2023, arXiv:2311.03099. A step before any method. The drops belong to the place (seed, tensor, model,
index), so they do not depend on the order of work. `rescale: l1` divides so that each tensor's summed magnitude
stays what it was, which is what mergekit does; `none` leaves the survivors as they are.

Use it before a sum or `ties` of small changes: a random part of a fine-tune's change, scaled up, does nearly what all
of it does, and the parts of several models meet less often. Avoid it for large changes, as after long training: what
is kept is multiplied by 1/density and overshoots; raise `density` there. In clip8 and llm5 it gained nothing over task
arithmetic alone.

Its parameters:
    density: the chance of each entry to be kept. Try `0.1` to `0.5`; more for larger changes.
    rescale: `density` divides what is kept by its chance, as the paper does; `l1` restores each tensor's summed
        magnitude, as mergekit does; `none` leaves it.

Example:
    merge: [{dare: {density: 0.2}}, {task_arithmetic: {scale: 0.3}}]
    seed: 1
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from smelt.methods.method import Fraction, PerModel, Stack, merge_step
from smelt.ops.block import Block
from smelt.ops.prune import Bits, DrawnMask, keep_drawn
from smelt.ops.random import PlaceRandom

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor


def _prepare(density: list[float], rescale: str) -> DrawnMask | None:
    return DrawnMask(lambda block: _draw(block, density)) if rescale == "l1" else None


def _draw(block: Block, density: list[float]) -> Tensor:
    assert block.rng is not None
    column = block.stack.new_tensor(density).view(-1, *[1] * (block.stack.ndim - 1))
    return block.rng.keep(column, block.stack)


@merge_step(
    "dare",
    paper="2311.03099",
    prepare=_prepare,
    exempt={"copies": "copies drop different entries"},
    latex=r"d'_k = \frac{b_k}{density}\, d_k \\ b_k \sim Bernoulli(density)",
)
def dare(
    deltas: Stack,
    rng: PlaceRandom,
    drawn: tuple[Bits, NDArray[np.float64]] | None,
    *,
    density: PerModel[Fraction] = 0.1,
    rescale: Literal["density", "l1", "none"] = "density",
) -> Stack:
    if drawn is not None:
        return keep_drawn(deltas, drawn)
    kept = rng.keep(density, deltas).mul_(deltas)
    return kept.div_(density) if rescale == "density" else kept
