"""Sign conflicts: where fine-tunes of one base pull an entry in opposite directions.

    pairs        of the entries that both models changed, the share with opposite signs
    overlap      of all entries, the share that both changed
    entries      of the entries that any model changed, the share that some raise and others lower
    mass         the same, every entry weighted by its summed magnitude sum_i |d_i|
    cancelled    1 - sum |sum_i d_i| / sum sum_i |d_i|: the share of the magnitude that adding the changes up destroys

With `density` only that share of each model's largest changes counts, ranked over all tensors compared, as TIES trims.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from smelt.analyse.deltas import Deltas, Patterns
from smelt.analyse.models import open_models
from smelt.analyse.shown import matrix_table, notes_lines
from smelt.analyse.tables import plain, write_matrix
from smelt.display.blocks import Facts, Lines, Table
from smelt.display.shown import Shown
from smelt.errors import RecipeError
from smelt.ops.block import Block
from smelt.ops.order import Largest, keep_shares
from smelt.ops.prune import keep_rows

__all__ = ["SignConflicts", "sign_conflicts"]


_CHANCE = 0.5
"""Opposite signs among changes that have nothing to do with each other."""


@dataclass(frozen=True)
class SignConflicts(Shown):
    """Shares of entries in conflict, between 0 and 1; nan where there is nothing to count."""

    names: tuple[str, ...]
    pairs: tuple[tuple[float, ...], ...]
    overlap: tuple[tuple[float, ...], ...]
    entries: float
    mass: float
    cancelled: float
    density: float
    tensors: int
    parameters: int
    notes: tuple[str, ...] = ()

    def shown(self) -> list[Table | Facts | Lines]:
        shares = [
            ("entries", f"{self.entries:.1%} of the entries that any model changed are raised by some and lowered"),
            ("", "by others"),
            ("mass", f"{self.mass:.1%} of the changes' magnitude lies in them"),
            ("cancelled", f"{self.cancelled:.1%} of the changes' magnitude vanishes when they are added up"),
        ]
        table = matrix_table(self.names, self.pairs, _CHANCE, "share of opposite signs")
        return [table, Facts(shares), notes_lines(self.notes)]

    def to_json(self) -> dict[str, Any]:
        """Plain data, the pairs under `matrix` too as every heat map has them; nan becomes null."""
        data: dict[str, Any] = plain(self)
        return {**data, "matrix": data["pairs"]}

    def to_csv(self, path: str | Path) -> Path:
        """The pairs: a header of names, then one row per model that begins with its name."""
        return write_matrix(Path(path), self.names, self.pairs)


def sign_conflicts(
    pool: Any,
    keys: Patterns = None,
    *,
    density: float = 1.0,
    base: Any = None,
    skip: Patterns = None,
    allow_pickle: bool = False,
    quiet: bool = True,
) -> SignConflicts:
    """How often the models' changes have opposite signs: for every pair, and over all models.

    `density` counts only that share of each model's largest changes. `pool`, `base`, `keys`, `skip` and
    `allow_pickle` as for `cosine_similarity`.
    """
    if not 0 < density <= 1:
        raise RecipeError(f"density: the share of changes that count lies above 0 and at most at 1, got {density}")
    with open_models(pool, base, allow_pickle=allow_pickle) as models:
        deltas = Deltas(models, keys, skip, quiet=quiet)
        count = len(deltas.names)
        cuts = _cuts(deltas, density)
        agree, both = torch.zeros(2, count, count, dtype=torch.float64)
        sums = torch.zeros(5, dtype=torch.float64)
        for block in deltas:
            stack = keep_rows(block.stack, [row[0] for row in cuts.at(block.place)]) if cuts else block.stack
            sums += _sums(stack)
            signs = stack.sign()
            agree += signs @ signs.mT  # whole numbers below 2^24 in every block, so float32 counts exactly
            both += signs.abs_() @ signs.mT
    pairs = (both - agree) / 2 / both
    changed, mixed, mass, mixed_mass, left = sums.tolist()
    return SignConflicts(
        names=deltas.names,
        pairs=_rows(pairs),
        overlap=_rows(both / deltas.parameters),
        entries=mixed / changed if changed else math.nan,
        mass=mixed_mass / mass if mass else math.nan,
        cancelled=max(0.0, 1 - left / mass) if mass else math.nan,
        density=density,
        tensors=len(deltas.keys),
        parameters=deltas.parameters,
        notes=(*deltas.notes, *_undefined(deltas.names, both)),
    )


def _cuts(deltas: Deltas, density: float) -> Largest | None:
    """Exact cuts over all tensors, in two or three passes; None where everything counts."""
    cuts = keep_shares([density] * len(deltas.names), "model")
    while cuts is not None and cuts.wants_pass:
        cuts.absorb(_joined(cuts, deltas))
    return cuts


def _joined(fold: Largest, blocks: Iterable[Block]) -> Any:
    total = None
    for block in blocks:
        part = fold.look(block)
        total = part if total is None else fold.join(total, part)
    return total


def _sums(stack: Tensor) -> Tensor:
    """Entries changed, those in conflict, the summed magnitude of each kind, and what is left after adding up."""
    magnitude, added = stack.abs().sum(0), stack.sum(0)
    mixed = (stack.amax(0) > 0) & (stack.amin(0) < 0)
    parts = (magnitude > 0, mixed, magnitude, magnitude * mixed, added.abs())
    return torch.stack([part.sum(dtype=torch.float64) for part in parts])


def _undefined(names: tuple[str, ...], both: Tensor) -> list[str]:
    """Pairs that changed no entry in common have no share."""
    empty = [(a, b) for i, a in enumerate(names) for j, b in enumerate(names[:i]) if not both[i, j]]
    unchanged = [name for number, name in enumerate(names) if not both[number, number]]
    notes = [f"{name} equals the base in the tensors compared: its shares are nan" for name in unchanged]
    apart = [f"{b} and {a}" for a, b in empty if a not in unchanged and b not in unchanged]
    return notes + [f"{pair} changed no entry in common: their share is nan" for pair in apart]


def _rows(matrix: Tensor) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())
