"""Cosine similarity of task vectors: how far fine-tunes of one base pull in the same direction.

    c_ij = <d_i, d_j> / (|d_i| |d_j|)        d_i = model_i - base, all chosen tensors as one vector

One pass, one Gram matrix per block, sums in float64. A model that equals its base has no direction: its row is nan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from smelt.analyse.deltas import Deltas, Patterns
from smelt.analyse.models import open_models
from smelt.analyse.shown import matrix_table, notes_lines
from smelt.analyse.tables import plain, write_matrix
from smelt.display.blocks import Lines, Table
from smelt.display.shades import full_shade
from smelt.display.shown import Shown

__all__ = ["CosineSimilarity", "cosine_similarity"]


@dataclass(frozen=True)
class CosineSimilarity(Shown):
    """The matrix of cosines between task vectors, in the order of `names`."""

    names: tuple[str, ...]
    matrix: tuple[tuple[float, ...], ...]
    tensors: int
    parameters: int
    notes: tuple[str, ...] = ()

    def shown(self) -> list[Table | Lines]:
        pairs = [(i, j, value) for i, row in enumerate(self.matrix) for j, value in enumerate(row)]
        others = [value for i, j, value in pairs if i != j and not math.isnan(value)]
        table = matrix_table(self.names, self.matrix, full_shade(others), "cosine similarity of task vectors")
        return [table, notes_lines(self.notes)]

    def to_json(self) -> dict[str, Any]:
        """Plain data for a heat map; nan becomes null, which JSON can hold."""
        data: dict[str, Any] = plain(self)
        return data

    def to_csv(self, path: str | Path) -> Path:
        """A header of names, then one row per model that begins with its name; nan where undefined."""
        return write_matrix(Path(path), self.names, self.matrix)


def cosine_similarity(
    pool: Any,
    keys: Patterns = None,
    *,
    base: Any = None,
    skip: Patterns = None,
    allow_pickle: bool = False,
    quiet: bool = True,
) -> CosineSimilarity:
    """The cosine similarity of every pair of task vectors.

    `pool` is a ModelPool, a recipe or pool (or the path of its YAML), or models as `smelt.merge` takes them, with
    their `base`. `keys` and `skip` are patterns of tensor names (`vision_model.*`); by default all floating-point
    tensors that every model has are compared. With `allow_pickle` references may name pickles.
    """
    with open_models(pool, base, allow_pickle=allow_pickle) as models:
        deltas = Deltas(models, keys, skip, quiet=quiet)
        gram = torch.zeros(len(deltas.names), len(deltas.names), dtype=torch.float64)
        for block in deltas:
            exact = block.stack.double()
            gram.addmm_(exact, exact.mT)
    norms = gram.diagonal().sqrt()
    matrix = (gram / norms / norms[:, None]).clamp_(-1.0, 1.0)  # 0 / 0 is the nan that a missing direction means
    matrix.diagonal().copy_(torch.where(norms > 0, 1.0, torch.nan))
    notes = tuple(
        f"{name} equals the base in the tensors compared: it has no direction, so its cosines are nan"
        for name, norm in zip(deltas.names, norms.tolist(), strict=True)
        if norm == 0
    )
    rows = tuple(tuple(row) for row in matrix.tolist())
    return CosineSimilarity(deltas.names, rows, len(deltas.keys), deltas.parameters, (*deltas.notes, *notes))
