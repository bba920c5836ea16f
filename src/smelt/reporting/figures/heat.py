"""Heat maps as data: the text of a cell and how strongly it is shaded. The page draws them as real tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from smelt.reporting.figures.experts import Matrix
from smelt.reporting.words import percent

__all__ = ["HeatMap", "Shade", "accuracy_map", "cosine_map", "plain_map", "signs_map"]


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
