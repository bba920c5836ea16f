"""How far each fine-tune went from its base, layer by layer.

    |d_i| and |d_i| / |base|        over the tensors of a layer, and over all

A layer is a block of the network, or a module outside the blocks (embeddings, final norm, projection). Layers that no
model changed are named and left out. Sums in float64.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from smelt.analyse.deltas import Deltas, Patterns
from smelt.analyse.models import open_models
from smelt.analyse.shown import notes_lines
from smelt.analyse.tables import plain
from smelt.display.blocks import Lines, Table
from smelt.display.shown import Shown
from smelt.formats.architecture.layers import layers_in_order

__all__ = ["DeltaNorms", "delta_norms"]


@dataclass(frozen=True)
class DeltaNorms(Shown):
    """Lengths of task vectors per layer and over all; `relative` is divided by the base's length (nan where 0)."""

    layers: tuple[str, ...]
    base: tuple[float, ...]
    models: Mapping[str, tuple[float, ...]]
    relative: Mapping[str, tuple[float, ...]]
    whole: Mapping[str, float]
    whole_relative: Mapping[str, float]
    unchanged: tuple[str, ...]
    tensors: int
    parameters: int
    notes: tuple[str, ...] = ()

    def shown(self) -> list[Table | Lines]:
        lines = [(layer, [row[n] for row in self.relative.values()]) for n, layer in enumerate(self.layers)]
        lines.append(("all", list(self.whole_relative.values())))
        rows = [[layer, *(f"{value:.4f}" for value in values)] for layer, values in lines]
        return [Table(["|d| / |base|", *self.models], rows, rules=[len(rows) - 1]), notes_lines(self.notes)]

    def to_json(self) -> dict[str, Any]:
        """Plain data; nan becomes null."""
        data: dict[str, Any] = plain(self)
        return data


def delta_norms(
    pool: Any,
    keys: Patterns = None,
    *,
    base: Any = None,
    skip: Patterns = None,
    allow_pickle: bool = False,
    quiet: bool = True,
) -> DeltaNorms:
    """The length of every task vector, per layer and over all, as such and relative to the base's weights.

    `pool`, `base`, `keys`, `skip` and `allow_pickle` as for `cosine_similarity`.
    """
    with open_models(pool, base, allow_pickle=allow_pickle) as models:
        deltas = Deltas(models, keys, skip, quiet=quiet)
        layer_of = layers_in_order(deltas.keys)
        layers = list(dict.fromkeys(layer_of.values()))
        squared = torch.zeros(len(layers), len(deltas.names) + 1, dtype=torch.float64)
        for block in deltas:
            assert block.base is not None
            row = squared[layers.index(layer_of[block.place.key])]
            row[:-1] += torch.linalg.vector_norm(block.stack, dim=1, dtype=torch.float64).square()
            row[-1] += torch.linalg.vector_norm(block.base, dtype=torch.float64).square()
    changed = squared[:, :-1].any(1).tolist()
    lengths, total = squared.sqrt(), squared.sum(0).sqrt().tolist()
    kept = [number for number, moved in enumerate(changed) if moved]
    by_model = {name: tuple(lengths[kept, column].tolist()) for column, name in enumerate(deltas.names)}
    of_base = tuple(lengths[kept, -1].tolist())
    return DeltaNorms(
        layers=tuple(layers[number] for number in kept),
        base=of_base,
        models=by_model,
        relative={name: tuple(map(_ratio, row, of_base)) for name, row in by_model.items()},
        whole=dict(zip(deltas.names, total, strict=False)),
        whole_relative={name: _ratio(length, total[-1]) for name, length in zip(deltas.names, total, strict=False)},
        unchanged=tuple(layer for layer, moved in zip(layers, changed, strict=True) if not moved),
        tensors=len(deltas.keys),
        parameters=deltas.parameters,
        notes=deltas.notes,
    )


def _ratio(length: float, base: float) -> float:
    return length / base if base else math.nan
