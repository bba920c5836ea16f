"""Weighted sums of adapters, without their base: factors side by side, and cut to a rank where they are too many.

    sum_i w_i s_i B_i A_i  =  [w_1 s_1 B_1, w_2 s_2 B_2, ...] [A_1; A_2; ...]

In: an item of a plan whose stages are linear and whose changes are all added to the base. Out: the two factors of the
merged change, and what was lost by the cut. LoHa's and LoKr's changes have such factors too (`Change.thin`). What is no
sum of this kind (DoRA, whole tensors, other methods) is merged from the weights, and cut by a singular value
decomposition of the whole change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.engine.plan.plan import Item
from smelt.formats.lora.edits import Added
from smelt.formats.lora.shared_base import SharedSource
from smelt.formats.lora.source import LoraSource
from smelt.formats.source import Source

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Factors", "cut", "summed_factors", "weights_of_sum"]


@dataclass(frozen=True)
class Factors:
    """A change as `up @ down`: [rows, rank] and [rank, columns]."""

    up: Tensor
    down: Tensor
    square: float
    """The squared size (Frobenius norm) of the change before any cut,"""
    lost: float
    """and of what the cut left out."""


def weights_of_sum(item: Item) -> list[float] | None:
    """What each model's change counts, where the merge is a weighted sum of changes; else None."""
    if len(item.stages) != 1:
        return None
    name, parameters = item.stages[0].stage.name, item.stages[0].parameters
    if name not in ("average", "task_arithmetic"):
        return None
    said = parameters.get("weights", 1.0)
    weights = [float(weight) for weight in said] if isinstance(said, list | tuple) else [float(said)] * len(item.taps)
    if len(weights) != len(item.taps):
        return None
    total = sum(weights)
    if parameters.get("normalize"):
        if total == 0:
            return None
        weights = [weight / total for weight in weights]
    elif name == "average" and abs(total - 1) > 1e-12:
        return None  # the base itself is scaled too
    return [weight * float(parameters.get("scale", 1.0)) for weight in weights]


def summed_factors(item: Item, base: Source, rank: int) -> Factors | None:
    """The merged change of a tensor, cut to a rank where its factors have more; None where it is no such sum."""
    import torch

    weights = weights_of_sum(item)
    parts = [_added(tap.source, tap.key, base) for tap in item.taps]
    if weights is None or any(part is None for part in parts):
        return None
    count = item.info.shape[0] if item.info.shape else 1
    ups, downs = [torch.empty(count, 0)], [torch.empty(0, max(1, item.info.count // count))]
    for tap, weight, edits in zip(item.taps, weights, parts, strict=True):
        for edit in edits or ():
            assert isinstance(tap.source, LoraSource)
            up, down = edit.change.thin(tap.source.stored)
            placed = torch.zeros(count, up.shape[1])
            placed[edit.at : edit.at + edit.count] = up[edit.start : edit.start + edit.count] * weight
            ups.append(placed)
            downs.append(down)
    return cut(torch.cat(ups, dim=1), torch.cat(downs), rank)


def _added(source: Source, key: str, base: Source) -> list[Added] | None:
    """What an adapter adds to a tensor of this base: nothing for the base itself, None for what is no sum."""
    if source is base:
        return []
    if not isinstance(source, LoraSource) or not _same(source.base, base):
        return None
    edits, stacked = source.plan.edits.get(key, []), key in source.plan.stacks
    if key in source.plan.replaced or stacked or not all(isinstance(edit, Added) for edit in edits):
        return None
    return [edit for edit in edits if isinstance(edit, Added)]


def _same(one: Source, other: Source) -> bool:
    """Adapters share the base that they are opened over (`share_bases`)."""
    plain = [source.inner if isinstance(source, SharedSource) else source for source in (one, other)]
    return plain[0] is plain[1] or (bool(plain[0].files) and plain[0].files == plain[1].files)


def cut(up: Tensor, down: Tensor, rank: int) -> Factors:
    """As they are where they have no more than the rank; else the best of it, found within what they span."""
    import torch

    gram = (up.double().mT @ up.double()) * (down.double() @ down.double().mT)
    square = max(0.0, float(gram.sum()))
    if up.shape[1] <= rank:
        return Factors(up, down, square, 0.0)
    left, first = torch.linalg.qr(up.double())
    right, second = torch.linalg.qr(down.double().mT)
    inner, values, outer = torch.linalg.svd(first @ second.mT)
    root = values[:rank].sqrt()
    return Factors(
        (left @ inner[:, :rank] * root).float(),
        (root[:, None] * (outer[:rank] @ right.mT)).float(),
        square,
        float(values[rank:].square().sum()),
    )
