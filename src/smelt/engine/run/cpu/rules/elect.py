"""Rules of methods that elect a sign for each entry and merge what has it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from smelt.engine.run.cpu.rules.prune import bound, trimmed

if TYPE_CHECKING:
    from smelt.engine.run.cpu.program import Program
    from smelt.engine.run.cpu.rules.rule import At, Rows

__all__ = ["sce", "selected", "ties", "variance"]


def _elected(program: Program, rows: Rows, at: At, elect: str = "mass") -> int:
    voices = rows if elect == "mass" else [program.sign(row) for row in rows]
    return program.sign(program.total(voices), zero_is_up=at.parameters["tie"] == "positive")


def ties(program: Program, rows: Rows, at: At) -> int:
    parameters, weights = at.parameters, at.column("weights")
    weighted = [program.scale(row, w) for row, w in zip(trimmed(program, rows, at), weights, strict=True)]
    sign = _elected(program, weighted, at, parameters["elect"])
    if parameters["merge"] == "mean":
        merged, shares = program.agreeing(weighted, sign, weights)
        whole = program.no_zero(shares, into=shares) if min(weights) < 0 else program.at_least(shares, 1e-30, shares)
        merged = program.multiply(program.divide(merged, whole), sign)
        return _scaled(program, merged, parameters["scale"])
    agreed = [program.agree(row, sign, into=row) for row in weighted]
    if parameters["merge"] == "max":
        largest = agreed[0]
        for row in agreed[1:]:
            largest = program.larger(largest, row, into=largest)
        return _scaled(program, program.multiply(sign, largest), parameters["scale"])
    return _scaled(program, program.multiply(program.total(agreed), sign), parameters["scale"])


def _scaled(program: Program, row: int, scale: float) -> int:
    return row if scale == 1 else program.scale(row, scale, into=row)


def variance(program: Program, rows: Rows, at: At) -> Rows:
    if len(rows) == 3:
        return [program.variance(*rows)]
    mean = program.over(program.total(rows), len(rows))
    spread = [program.subtract(row, mean) for row in rows]
    squares = [program.square(row, into=row) for row in spread]
    return [program.over(program.total(squares, into=squares[0]), len(rows))]


def _selection(program: Program, rows: Rows, at: At) -> tuple[int, float]:
    """A register and the bound that it exceeds where SCE selects."""
    (varied,), cut = variance(program, rows, at), at.found[0][0]
    if cut.value == 0:
        return varied, 0.0
    return (program.cut(varied, cut.below, cut.value, cut.ties), 0.0) if cut.ties else (varied, bound(cut))


def selected(program: Program, rows: Rows, at: At) -> Rows:
    if at.found is None:
        return rows
    varied, above = _selection(program, rows, at)
    return [program.where(row, varied, above) for row in rows]


def sce(program: Program, rows: Rows, at: At) -> int:
    """A sign of 0 leaves an entry as it is, so that only the sign has to know what was selected."""
    cuts, found = at.found
    weights = [float(weight) for weight in found]
    sign = _elected(program, rows, at)
    if cuts is not None:
        sign = program.where(sign, *_selection(program, rows, replace(at, found=cuts)))
    merged, shares = program.agreeing(rows, sign, weights, weights)
    merged = program.divide(merged, program.at_least(shares, 1e-30, shares), into=merged)
    return program.multiply(merged, sign, into=merged)
