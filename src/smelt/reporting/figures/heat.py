"""Heat maps as data: the text of a cell and how strongly it is shaded. The page draws them as real tables, and below
each the scale of its shades.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from smelt.display.shades import full_shade
from smelt.evaluation.row import Row
from smelt.reporting.tables.grid import Grid
from smelt.reporting.tables.lines import EXPERT, is_expert
from smelt.reporting.words import percent

__all__ = ["HeatMap", "Matrix", "Shade", "accuracy_map", "cosine_map", "experts_matrix", "plain_map", "signs_map"]


_STEPS = 5
"""From one end of a scale to the other, or to 0."""
_PALE, _DARK = 0.12, 0.82
"""Shades of the smallest and the largest number, where neither is 0."""


@dataclass(frozen=True)
class Matrix:
    """Named rows and columns of numbers; None where nothing was measured."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Shade:
    """A cell, or a step of the scale: `strength` from 0 to 1, `below` where the number is negative, `own` on the
    diagonal.
    """

    text: str
    strength: float
    below: bool = False
    own: bool = False
    tip: str = ""


@dataclass(frozen=True)
class HeatMap:
    """Rows of shaded cells under named columns, and the shades from the lowest number to the highest."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Shade, ...]], ...]
    scale: tuple[Shade, ...]


def experts_matrix(rows: Iterable[Row], grid: Grid) -> Matrix | None:
    """Each expert on every task of the table: how much a fine-tune forgets of what it was not tuned for.

    The pre-trained model comes last. None where no expert was asked another task than its own.
    """
    found: dict[tuple[str, str], float] = {}
    for row in rows:
        if is_expert(row) and row.split == grid.split:
            found[row.entry.removeprefix(EXPERT), row.task] = row.accuracy
    if all(name == task for name, task in found):
        return None
    names = {name for name, _ in found}
    order = (*(t for t in grid.tasks if t in names), *sorted(names.difference(grid.tasks)))
    values = [tuple(found.get((name, task)) for task in grid.tasks) for name in order]
    if grid.base is not None:
        order = (*order, grid.base.label)
        values.append(tuple(cell.accuracy if cell else None for cell in grid.base.cells))
    return Matrix(order, grid.tasks, tuple(values))


def accuracy_map(matrix: Matrix) -> HeatMap:
    """Experts × tasks: shaded by accuracy itself, so that 0 is blank and 100 % is full."""
    scale = _scale("0 %", "100 %")
    return _map(matrix, percent, lambda value: value, lambda row, column, text: f"{row} on {column}: {text} %", scale)


def cosine_map(matrix: Matrix) -> HeatMap:
    """Similarities: 0 is blank, a round number that none exceeds is full; a model with itself is left blank."""
    known = _between_models(matrix)
    most = full_shade(known)

    def tip(row: str, column: str, text: str) -> str:
        return f"{row} and {column}: {text}"

    scale = _from_zero(most, known, "{:g}".format)
    return _map(matrix, _two_digits, lambda value: abs(value) / most, tip, scale, apart=True)


def signs_map(matrix: Matrix) -> HeatMap:
    """Shares of opposite signs in percent, shaded from the smallest to the largest: they lie close together."""
    known = _between_models(matrix)
    low, high = min(known, default=0.0), max(known, default=0.0)

    def tip(row: str, column: str, text: str) -> str:
        return f"{row} and {column}: {text} % of the entries that both changed have opposite signs"

    def shade(value: float) -> float:
        return _PALE + (_DARK - _PALE) * ((value - low) / (high - low) if high > low else 0.5)

    return _map(
        matrix, percent, shade, tip, _scale(f"{percent(low)} %", f"{percent(high)} %", _PALE, _DARK), apart=True
    )


def plain_map(matrix: Matrix, write: Callable[[float], str] | None = None) -> HeatMap:
    """Any numbers: 0 is blank, the largest on either side of it is full; a name that meets itself is framed.

    `write` says how a number is written, where two digits after the point are not the right ones.
    """
    write = write or _two_digits
    known = [value for row in matrix.values for value in row if value is not None]
    most = max(map(abs, known), default=0.0) or 1.0

    def tip(row: str, column: str, text: str) -> str:
        return f"{row}, {column}: {text}"

    scale = _from_zero(most, known, write)
    return _map(matrix, write, lambda value: abs(value) / most, tip, scale)


def _scale(low: str, high: str, pale: float = 0.0, dark: float = 1.0) -> tuple[Shade, ...]:
    """Steps from one number to another, which are written at its ends."""
    between = (Shade("", round(pale + (dark - pale) * step / _STEPS, 3)) for step in range(1, _STEPS))
    return (Shade(low, pale), *between, Shade(high, dark))


def _from_zero(most: float, values: Iterable[float], write: Callable[[float], str]) -> tuple[Shade, ...]:
    """Steps from 0 to a number; from that number below 0 on where one of the values is written with a minus."""
    above = _scale("0", write(most))
    if not any(write(value) != write(abs(value)) for value in values):
        return above
    below = (Shade("", one.strength, below=True) for one in above[-2:0:-1])
    return (Shade(write(-most), 1.0, below=True), *below, *above)


def _map(
    matrix: Matrix,
    write: Callable[[float], str],
    shade: Callable[[float], float],
    tip: Callable[[str, str, str], str],
    scale: tuple[Shade, ...],
    *,
    apart: bool = False,
) -> HeatMap:
    def cell(row: str, column: str, value: float | None) -> Shade:
        own = row == column
        if own and apart:
            return Shade("·", 0.0, tip=f"{row} with itself")
        if value is None:
            return Shade("–", 0.0, False, own, tip(row, column, "not known"))
        text = write(value)
        strength = min(1.0, abs(shade(value)))
        return Shade(text, round(strength, 3), value < 0, own, tip(row, column, text))

    rows = tuple(
        (name, tuple(cell(name, column, value) for column, value in zip(matrix.columns, values, strict=True)))
        for name, values in zip(matrix.rows, matrix.values, strict=True)
    )
    return HeatMap(matrix.columns, rows, scale)


def _between_models(matrix: Matrix) -> list[float]:
    """The numbers off the diagonal that are known."""
    rows = enumerate(matrix.values)
    return [value for i, row in rows for j, value in enumerate(row) if i != j and value is not None]


def _two_digits(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00")
