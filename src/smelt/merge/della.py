"""DELLA: drop changes at random, the small ones more likely, and rescale by each one's chance.

    p = density - window/2 + window * (rank + 1/2) / columns    rank = how many in the row are smaller in magnitude
    keep each entry with probability p, divide what is kept by p

Deep et al. 2024, arXiv:2406.11617. A step before any method. A row is all that belongs to one output unit; equal
magnitudes share the middle of their ranks, so that `density` is the expected share whatever the ties (the paper has
no half, mergekit divides by columns - 1). mergekit's `epsilon` is window/2, and it rescales by the tensor's summed
magnitude instead (`rescale: l1`).
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor

from smelt.errors import RecipeError
from smelt.merge.method import Fraction, PerModel, Stack, merge_step
from smelt.ops.block import Block, Place
from smelt.ops.fold import Fold
from smelt.ops.prune import Bits, l1_ratios, l1_sums, pack, ranks_in_rows, sorted_magnitudes, unpack
from smelt.ops.random import PlaceRandom


def _kept(deltas: Stack, rng: PlaceRandom, density: Tensor, window: Tensor) -> Tensor:
    """1.0 where an entry stays: its rank exceeds (u - lowest p) / window * columns, for u uniform in [0, 1).

    So the magnitude at that rank decides, and only the magnitudes need sorting, not the entries. Of entries equal to
    it (the entry itself among them) the half stays for which that number's fraction is below 1/2.
    """
    columns = deltas.shape[-1]
    lowest, width = density - window / 2, (window / columns).clamp_min(1e-30)
    exact = rng.uniform(deltas).sub_(lowest).div_(width)
    bound = exact.floor()
    index = bound.clamp(0, columns - 1).to(torch.int64)
    above = (deltas.abs() - sorted_magnitudes(deltas).gather(-1, index)).sign_()
    half = exact.sub_(bound).neg_().add_(0.5).sign_()
    kept = above.mul_(2.0).add_(half).sign_().clamp_min_(0.0)
    sure = bound.clamp(-1.0, columns).sub_(bound.clamp(0.0, columns - 1.0))  # -1: kept whatever the rank, 1: dropped
    return kept.sub_(sure).clamp_(0.0, 1.0)


class _Kept(Fold):
    """Which entries of a tensor stay, one bit each, and what restores each model's summed magnitude."""

    def __init__(self, density: list[float], window: list[float]):
        self._density, self._window = density, window
        self._bits: dict[int, Bits] | None = None
        self._ratios: Tensor | None = None

    @property
    def wants_pass(self) -> bool:
        return self._bits is None

    def look(self, block: Block) -> tuple[Tensor, dict[int, Bits]]:
        stack = block.stack
        assert block.rng is not None
        shape = (-1, *[1] * (stack.ndim - 1))
        mask = _kept(
            stack, block.rng, stack.new_tensor(self._density).view(shape), stack.new_tensor(self._window).view(shape)
        )
        sums = l1_sums(stack, stack * mask).to("cpu", torch.float64)
        return sums, {block.place.start: pack(mask)}

    def join(self, left: Any, right: Any) -> Any:
        return left[0] + right[0], left[1] | right[1]

    def absorb(self, total: Any) -> None:
        self._ratios, self._bits = l1_ratios(total[0]), total[1]

    def at(self, place: Place) -> tuple[Bits, Tensor]:
        assert self._bits is not None
        assert self._ratios is not None
        return self._bits[place.start], self._ratios


def _prepare(density: list[float], window: list[float], rescale: str) -> Fold | None:
    for d, w in zip(density, window, strict=True):
        if d < 1 and not (d - w / 2 > 0 and d + w / 2 <= 1):
            raise RecipeError(
                f"della: density {d} with window {w} leaves the range of probabilities; narrow the window"
            )
    return (
        _Kept(density, [w if d < 1 else 0.0 for d, w in zip(density, window, strict=True)]) if rescale == "l1" else None
    )


@merge_step(
    "della", unit="row", paper="2406.11617", prepare=_prepare, exempt={"copies": "copies drop different entries"}
)
def della(
    deltas: Stack,
    rng: PlaceRandom,
    found: tuple[Bits, Tensor] | None,
    *,
    density: PerModel[Fraction] = 0.5,
    window: PerModel[Fraction] = 0.3,
    rescale: Literal["probability", "l1", "none"] = "probability",
) -> Stack:
    if found is not None:
        bits, ratios = found
        return deltas * unpack(bits, deltas) * ratios.to(deltas).view(density.shape)
    window = window * (density < 1)
    kept = deltas * _kept(deltas, rng, density, window)
    if rescale == "none":
        return kept
    chances = ranks_in_rows(deltas).mul_(window / deltas.shape[-1]).add_(density - window / 2)
    return kept.div_(chances)
