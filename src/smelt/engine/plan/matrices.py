"""An output tensor as the matrices that stages see: one item for each, and where their numbers go when merged.

In: an item whose tensor is stored as [in, out], or holds a stack of experts. Out: items that read [out, in], one
matrix each, through views of the models. So a method, its folds and its memory know nothing of how a file is written,
and an expert in a stack is merged as it would be alone. Stages that take any run of elements see the tensor as it is
stored: to them it is the same, and quicker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from smelt.engine.plan.drafts import Tap
from smelt.formats.dtype import item_size
from smelt.formats.renamed import Piece, RenamedSource
from smelt.formats.safetensors.header import TensorInfo

if TYPE_CHECKING:
    from smelt.engine.plan.plan import Item

__all__ = ["SUMMARIES", "each_matrix", "in_its_place"]

SUMMARIES = {"gram": 2, "components": 1}
"""Statistics that are not as large as the matrix, and their axes; a stack of matrices has one more."""


def each_matrix(item: Item) -> tuple[Item, ...]:
    """The items that are run for an item: its matrices, or itself where its stages need not know them."""
    matrices = item.matrices
    if matrices is None or item.unit == "element" or item.copied:
        return (item,)
    taps = [_views(tap, item) for tap in item.taps]
    base = _views(item.base, item) if item.base is not None else [None] * matrices.count
    statistics = [_views(tap, item, item.statistics_kind) for tap in item.statistics]
    # Rows of a transposed matrix lie all over it: it is read whole.
    unit = "tensor" if matrices.transposed and item.unit == "row" else item.unit
    return tuple(
        replace(
            item,
            info=TensorInfo(item.info.dtype, matrices.shape),
            base=base[number],
            taps=tuple(views[number] for views in taps),
            statistics=tuple(views[number] for views in statistics),
            unit=unit,
            whole=item,
            first=number * item.info.count // matrices.count,
        )
        for number in range(matrices.count)
    )


def in_its_place(item: Item, start: int, values: memoryview) -> tuple[Item, int, memoryview]:
    """Merged numbers of an item as its sink takes them: the output tensor, where they begin in it, and they as stored.

    Of a transposed matrix all numbers come at once, since it is one block.
    """
    if item.whole is None:
        return item, start, values
    assert item.matrices is not None
    if item.matrices.transposed:
        import numpy as np

        wide = np.frombuffer(values, f"u{item_size(item.info.dtype)}").reshape(item.info.shape)
        values = np.ascontiguousarray(wide.T).reshape(-1).view(np.uint8).data
    return item.whole, item.first + start, values


def _views(tap: Tap, item: Item, kind: str | None = None) -> Sequence[Tap]:
    """A tap on each of the matrices, or on the statistic of this kind that belongs to each."""
    matrices, stored = item.matrices, tap.source.tensors[tap.key]
    assert matrices is not None
    axes = SUMMARIES.get(kind or "")
    info = TensorInfo(stored.dtype, stored.shape[-axes:] if axes else matrices.shape)
    names = [tap.key] if matrices.count == 1 else [f"{tap.key}[{number}]" for number in range(matrices.count)]
    pieces = {
        name: Piece(tap.key, number * info.count, info, matrices.transposed and not axes)
        for number, name in enumerate(names)
    }
    view = RenamedSource(tap.source, pieces)
    return [Tap(tap.model, view, name) for name in names]
