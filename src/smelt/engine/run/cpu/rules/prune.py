"""Rules of steps that leave entries out: by their magnitude, at random, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from smelt.engine.run.cpu.program import Program
    from smelt.engine.run.cpu.rules.rule import At, Does, Rows
    from smelt.ops.order import Cut

__all__ = ["and_restored", "band", "bound", "dare", "della", "drawn", "ranked", "trimmed"]


def _kept(program: Program, row: int, cut: Cut) -> int:
    """What passes a cut. One that keeps nothing has the bound infinity, one that keeps all has none."""
    if cut.value == 0:
        return row
    return program.cut(row, bound(cut), cut.value, cut.ties or None)


def bound(cut: Cut) -> float:
    """What a magnitude must exceed to pass a cut, ties aside."""
    return cut.value if cut.ties == 0 else cut.below


def trimmed(program: Program, rows: Rows, at: At) -> Rows:
    cuts = at.found
    return [_kept(program, row, cut[0]) for row, cut in zip(rows, cuts, strict=True)] if cuts else rows


def _restored(program: Program, rows: Rows, factors: Sequence[float]) -> Rows:
    return [program.scale(row, float(factor)) for row, factor in zip(rows, factors, strict=True)]


def and_restored(prunes: Does) -> Does:
    """A pruning, followed by the factors that restore the summed magnitude where its fold has found such."""

    def does(program: Program, rows: Rows, at: At) -> Rows:
        if not isinstance(at.found, tuple):
            kept: Rows = prunes(program, rows, at)
            return kept
        found, factors = at.found
        return _restored(program, prunes(program, rows, replace(at, found=found)), factors)

    return does


def band(program: Program, rows: Rows, at: At) -> Rows:
    kept = []
    for row, (above, below) in zip(rows, at.found, strict=True):
        if below.value and above.value and not below.ties and not above.ties:
            kept.append(program.band(row, bound(below), bound(above)))
            continue
        kept.append(program.subtract(_kept(program, row, below), _kept(program, row, above)))
    return kept


def drawn(program: Program, rows: Rows, at: At) -> Rows:
    kept = []
    for row, model, chance in zip(rows, at.place.models, at.column("density"), strict=True):
        kept.append(program.multiply(program.draw(chance, *at.key(model)), row))
    return kept


def dare(program: Program, rows: Rows, at: At) -> Rows:
    kept = drawn(program, rows, at)
    if at.found is not None:
        return _restored(program, kept, at.found[1])
    if at.parameters["rescale"] == "none":
        return kept
    return [program.over(row, chance, into=row) for row, chance in zip(kept, at.column("density"), strict=True)]


def _window(program: Program, at: At) -> list[tuple[float, float]]:
    """Each model's lowest chance, and by how much a rank adds to it. A density of 1 leaves no room for a window."""
    density, window = (np.array(at.parameters[name], np.float32) for name in ("density", "window"))
    window = window * (density < 1)
    lowest, step = density - window / np.float32(2), window / np.float32(program.width)
    return list(zip(lowest.tolist(), step.tolist(), strict=True))


def ranked(program: Program, rows: Rows, at: At) -> Rows:
    """The masks of DELLA."""
    masks = []
    for row, model, (lowest, step) in zip(rows, at.place.models, _window(program, at), strict=True):
        masks.append(program.draw_ranked(row, lowest, max(step, 1e-30), *at.key(model)))
    return masks


def della(program: Program, rows: Rows, at: At) -> Rows:
    if at.found is not None:
        bits, ratios = at.found
        kept = [program.multiply(program.unpack(one), row) for one, row in zip(bits, rows, strict=True)]
        return _restored(program, kept, ratios)
    kept = [program.multiply(mask, row) for mask, row in zip(ranked(program, rows, at), rows, strict=True)]
    if at.parameters["rescale"] == "none":
        return kept
    for out, row, (lowest, step) in zip(kept, rows, _window(program, at), strict=True):
        chance = program.ranks(row)
        program.shift(program.scale(chance, step, into=chance), lowest, into=chance)
        program.divide(out, chance, into=out)
    return kept
