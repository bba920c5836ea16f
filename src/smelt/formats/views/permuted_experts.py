"""A mixture of experts with its experts in another order, in every layer its own: the same function, other numbers.

All that belongs to an expert moves with it: its matrices and biases, the router's row, the router's bias, the
correction of its score. What is stored as tensors of its own changes its name; what holds all experts is read in
another order. In: a Source, its layers, and for each layer the old number of every new expert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from smelt.formats.architecture.expert_layers import ExpertLayer
from smelt.formats.architecture.stored_layouts import DBRX
from smelt.formats.source import Source, TensorInfo
from smelt.formats.views.joined import JoinedSource
from smelt.formats.views.renamed import Piece

__all__ = ["permutation_fault", "with_permuted_experts"]

_Made = tuple[TensorInfo, tuple[Piece, ...]]


def permutation_fault(layer: ExpertLayer, tensors: Mapping[str, TensorInfo]) -> str | None:
    """Why the experts of a layer cannot change places, where they cannot."""
    if layer.others:
        return f"{layer.others[0]!r} is neither expert, shared expert nor router, so it is not known what follows them"
    if not layer.routers:
        return f"{layer.name} has no router that could follow its experts"
    for name in (*layer.routers, *layer.stacked):
        shape = tensors[name].shape
        rows = next((side for side in shape if side != 1), 1)
        if rows != layer.count and not (DBRX.match(name) and rows % layer.count == 0):
            return f"{name!r} is {shape}, and no axis is known to be that of the {layer.count} experts"
    return None


def with_permuted_experts(
    source: Source, layers: Sequence[ExpertLayer], orders: Mapping[str, Sequence[int]]
) -> JoinedSource:
    """The view; `orders` are of the layers that change."""
    made: dict[str, _Made] = {name: (info, (Piece(name, 0, info),)) for name, info in source.tensors.items()}
    for layer in layers:
        order = orders.get(layer.name)
        if order is None:
            continue
        for new, old in enumerate(order):
            for rest, name in layer.apart.get(new, {}).items():
                stored = layer.apart[old][rest]
                made[name] = (source.tensors[stored], (Piece(stored, 0, source.tensors[stored]),))
        for name in (*layer.routers, *layer.stacked):
            made[name] = _reordered(name, source.tensors[name], order)
    return JoinedSource(source, made)


def _reordered(name: str, info: TensorInfo, order: Sequence[int]) -> _Made:
    """Runs of equal length, one for each expert, in another order."""
    size = info.count // len(order)
    run = TensorInfo(info.dtype, (size,))
    return info, tuple(Piece(name, old * size, run) for old in order)
