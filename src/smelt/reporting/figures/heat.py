"""Heat maps as data: the text of a cell and how strongly it is shaded. The page draws them as real tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from smelt.evaluation.row import Row
from smelt.reporting.tables.grid import Grid
from smelt.reporting.tables.lines import EXPERT, is_expert
from smelt.reporting.words import percent

__all__ = ["HeatMap", "Matrix", "Shade", "accuracy_map", "cosine_map", "experts_matrix", "plain_map", "signs_map"]


@dataclass(frozen=True)
class Matrix:
    """Named rows and columns of numbers; None where nothing was measured."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class Shade:
    """A cell: `strength` from 0 to 1, `below` where the number is negative, `own` on the diagonal."""

    text: str
    strength: float
    below: bool
    own: bool
    tip: str


@dataclass(frozen=True)
class HeatMap:
    """Rows of shaded cells under named columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[Shade, ...]], ...]


def experts_matrix(rows: Iterable[Row], grid: Grid) -> Matrix | None:
    """Each expert on every task of the table: how much a fine-tune forgets of what it was not tuned for.

    The pre-trained model comes last. None where there are no experts.
    """
    found: dict[tuple[str, str], float] = {}
    for row in rows:
        if is_expert(row) and row.split == grid.split:
            found[row.entry.removeprefix(EXPERT), row.task] = row.accuracy
    names = {name for name, _ in found}
    order = (*(t for t in grid.tasks if t in names), *sorted(names.difference(grid.tasks)))
    if not order:
        return None
    values = [tuple(found.get((name, task)) for task in grid.tasks) for name in order]
    if grid.base is not None:
        order = (*order, grid.base.label)
        values.append(tuple(cell.accuracy if cell else None for cell in grid.base.cells))
    return Matrix(order, grid.tasks, tuple(values))


def accuracy_map(matrix: Matrix) -> HeatMap:
    """Experts × tasks: shaded by accuracy itself, so that 0 is blank and 100 % is full."""
    return _map(matrix, percent, lambda value: value, lambda row, column, text: f"{row} on {column}: {text} %")


def cosine_map(matrix: Matrix) -> HeatMap:
    """Similarities: shaded by the largest between two different models; a model with itself is left blank."""
    most = max(map(abs, _between_models(matrix)), default=0.0) or 1.0

    def tip(row: str, column: str, text: str) -> str:
        return f"{row} and {column}: {text}"

    return _map(matrix, _two_digits, lambda value: abs(value) / most, tip, apart=True)


def signs_map(matrix: Matrix) -> HeatMap:
    """Shares of opposite signs in percent, shaded from the smallest to the largest: they lie close together."""
    known = _between_models(matrix)
    low, width = min(known, default=0.0), max(known, default=0.0) - min(known, default=0.0)

    def tip(row: str, column: str, text: str) -> str:
        return f"{row} and {column}: {text} % of the entries that both changed have opposite signs"

    return _map(matrix, percent, lambda value: 0.12 + 0.7 * ((value - low) / width if width else 0.5), tip, apart=True)


def plain_map(matrix: Matrix) -> HeatMap:
    """Any numbers: 0 is blank, the largest on either side of it is full; a name that meets itself is framed."""
    most = max((abs(value) for row in matrix.values for value in row if value is not None), default=0.0) or 1.0

    def tip(row: str, column: str, text: str) -> str:
        return f"{row}, {column}: {text}"

    return _map(matrix, _two_digits, lambda value: abs(value) / most, tip)


def _map(
    matrix: Matrix,
    write: Callable[[float], str],
    shade: Callable[[float], float],
    tip: Callable[[str, str, str], str],
    *,
    apart: bool = False,
) -> HeatMap:
    def cell(row: str, column: str, value: float | None) -> Shade:
        own = row == column
        if own and apart:
            return Shade("·", 0.0, False, False, f"{row} with itself")
        if value is None:
            return Shade("–", 0.0, False, own, tip(row, column, "not known"))
        text = write(value)
        strength = min(1.0, abs(shade(value)))
        return Shade(text, round(strength, 3), value < 0, own, tip(row, column, text))

    rows = tuple(
        (name, tuple(cell(name, column, value) for column, value in zip(matrix.columns, values, strict=True)))
        for name, values in zip(matrix.rows, matrix.values, strict=True)
    )
    return HeatMap(matrix.columns, rows)


def _between_models(matrix: Matrix) -> list[float]:
    """The numbers off the diagonal that are known."""
    rows = enumerate(matrix.values)
    return [value for i, row in rows for j, value in enumerate(row) if i != j and value is not None]


def _two_digits(value: float) -> str:
    return f"{value:.2f}".replace("-0.00", "0.00")
