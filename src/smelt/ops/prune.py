"""Pruning: which entries of a row stay. Pure functions on blocks; the cuts come from `ops.order`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from smelt.ops.block import Block, Place, Stack
from smelt.ops.fold import Chain, Fold, Scope, Totals
from smelt.ops.order import Cut

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "Bits",
    "DrawnMask",
    "RestoredMagnitude",
    "SquaredNorms",
    "as_column",
    "keep_above",
    "keep_drawn",
    "keep_rows",
    "l1_ratios",
    "l1_sums",
    "pack",
    "ranks_in_rows",
    "sorted_magnitudes",
    "unpack",
    "with_l1",
]

Bits: TypeAlias = npt.NDArray[np.uint8]


def keep_rows(stack: Stack, cuts: Sequence[Cut]) -> Stack:
    """The stack [models, ...] with only the entries that each model's cut keeps; the rest is zero."""
    import torch

    kept = torch.empty_like(stack)
    for out, row, cut in zip(kept, stack, cuts, strict=True):
        keep_above(row, cut, out)
    return kept


def keep_above(row: Tensor, cut: Cut, out: Tensor | None = None) -> Tensor:
    """The entries of one model [...] whose magnitude passes the cut, in the same shape; the rest is zero.

    `hardshrink` is the one vectorised kernel that compares and selects in a single pass; it keeps what is strictly
    above its bound.
    """
    import torch

    out = torch.empty_like(row) if out is None else out
    if cut.value == math.inf:
        return out.zero_()
    if cut.value == 0:
        return out.copy_(row)
    bound = cut.value if cut.ties == 0 else cut.below
    torch.ops.aten.hardshrink.out(row, bound, out=out)
    if cut.ties:
        equal = (row.abs() == cut.value).flatten()
        if int(torch.count_nonzero(equal)) > cut.ties:
            surplus = equal & (equal.cumsum(0) > cut.ties)
            out.masked_fill_(surplus.view_as(out), 0.0)
    return out


class DrawnMask(Fold):
    """Which entries of a tensor a random mask keeps, one bit each, and what restores each model's summed magnitude.

    The mask is drawn once: drawing it again in the pass that merges would cost more than the bits take.
    """

    def __init__(self, mask: Callable[[Block], Tensor]):
        self._mask = mask
        self._bits: dict[int, Bits] | None = None
        self._ratios: npt.NDArray[np.float64] | None = None

    @property
    def wants_pass(self) -> bool:
        return self._bits is None

    def holds(self, count: int, models: int, room: int) -> int:
        return models * -(-count // 8)

    def look(self, block: Block) -> tuple[npt.NDArray[np.float64], dict[int, Bits]]:
        mask = self._mask(block)
        sums = l1_sums(block.stack, block.stack * mask).cpu().numpy()
        return sums, {block.place.start: pack(mask)}

    def join(self, left: Any, right: Any) -> Any:
        return left[0] + right[0], left[1] | right[1]

    def absorb(self, total: Any) -> None:
        self._ratios, self._bits = l1_ratios(total[0]), total[1]

    def at(self, place: Place) -> tuple[Bits, npt.NDArray[np.float64]]:
        assert self._bits is not None
        assert self._ratios is not None
        return self._bits[place.start], self._ratios


def keep_drawn(stack: Stack, drawn: tuple[Bits, npt.NDArray[np.float64]]) -> Stack:
    """The entries that a `DrawnMask` fold drew, rescaled to the summed magnitude of all."""
    bits, ratios = drawn
    return unpack(bits, stack).mul_(stack).mul_(as_column(ratios, stack))


def as_column(values: npt.NDArray[np.float64], stack: Stack) -> Tensor:
    """One value for each model [models], as [models, 1, ...], so that it broadcasts against the stack."""
    return stack.new_tensor(values.tolist()).view(-1, *[1] * (stack.ndim - 1))


def l1_sums(before: Stack, after: Stack) -> Tensor:
    """The summed magnitude of each model before and after pruning, as [2, models] in float64."""
    import torch

    return torch.stack([_l1(before.flatten(1)), _l1(after.flatten(1))])


def _l1(rows: Tensor) -> Tensor:
    import torch

    return torch.stack([row.abs().sum(dtype=torch.float64) for row in rows])


def l1_ratios(sums: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Summed magnitude before over after of [2, models], as [models]; 1 where nothing is left."""
    before, after = sums
    return np.where(after > 0, before / np.maximum(after, 1e-300), 1.0)


class RestoredMagnitude(Totals):
    """What restores each model's summed magnitude after a pruning, `keep(stack, known(place))`."""

    def __init__(self, known: Callable[[Place], Any], keep: Callable[[Stack, Any], Stack], scope: Scope):
        super().__init__(lambda block: l1_sums(block.stack, keep(block.stack, known(block.place))), l1_ratios, scope)
        self.known = known


class SquaredNorms(Totals):
    """The summed squares of each model after a pruning, `keep(stack, known(place))`, and last the number of entries."""

    def __init__(
        self,
        known: Callable[[Place], Any],
        keep: Callable[[Stack, Any], Stack],
        then: Callable[[npt.NDArray[np.float64]], Any],
    ):
        super().__init__(lambda block: _squares(keep(block.stack, known(block.place))), then)
        self.known = known


def _squares(stack: Stack) -> Tensor:
    import torch

    sums = [float(row.dot(row)) for row in stack.flatten(1).double()]
    return torch.tensor([*sums, stack[0].numel()], dtype=torch.float64)


def with_l1(first: Fold, keep: Callable[[Stack, Any], Stack]) -> Chain:
    """A fold whose finding prunes (`keep(stack, found)`), followed by the factors that restore the summed magnitude."""
    return Chain(first, lambda at: RestoredMagnitude(at, keep, first.scope))


def sorted_magnitudes(stack: Stack) -> Tensor:
    """The magnitudes of every row (the last axis) of [models, ..., columns], smallest first."""
    import torch

    if stack.device.type != "cpu":
        return stack.abs().sort(-1).values
    bits = stack.abs().view(torch.int32)  # non-negative floats sort like their bits, and integers sort faster
    bits.numpy().sort(axis=-1)
    return bits.view(torch.float32)


def ranks_in_rows(stack: Stack) -> Tensor:
    """For every entry, how many of its row (the last axis) are smaller in magnitude, and half of those equal to it.

    The entry equals itself, so ranks run from 1/2 to the row's length less 1/2. One sort of 64-bit keys, the float's
    bits above the column's number, gives order and entries together.
    """
    import torch

    columns = torch.arange(stack.shape[-1], device=stack.device)
    keys = (stack.abs().view(torch.int32).to(torch.int64) << 32) | columns
    if keys.device.type == "cpu":
        keys.numpy().sort(axis=-1)
    else:
        keys = keys.sort(-1).values
    step = (keys[..., 1:] >> 32) != (keys[..., :-1] >> 32)
    edge = torch.ones_like(keys[..., :1], dtype=torch.bool)
    begin = (columns * torch.cat([edge, step], -1)).cummax(-1).values
    last = torch.cat([step, edge], -1)
    end = torch.where(last, columns + 1, len(columns) + 1).flip(-1).cummin(-1).values.flip(-1)
    return torch.empty_like(stack).scatter_(-1, keys & 0xFFFFFFFF, (begin + end) / 2)


def pack(mask: Tensor) -> Bits:
    """A mask of zeros and ones, of any shape, as one bit each in flat order."""
    import torch

    bits: Bits = np.packbits(mask.to("cpu", torch.uint8).numpy().reshape(-1))
    return bits


def unpack(bits: Bits, like: Tensor) -> Tensor:
    """The mask again, shaped like a tensor."""
    import torch

    mask = torch.from_numpy(np.unpackbits(bits, count=like.numel()))
    return mask.to(like.device).to(like.dtype).view_as(like)
