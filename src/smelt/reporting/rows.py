"""A suite's folder as the report sees it: rows of accuracy, rows of cost, and a refusal where there is nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from smelt.errors import CorruptFile, RecipeError
from smelt.evaluation.row import CostRow, Row, read_rows

__all__ = ["ROWS", "Measured", "read_folder"]

ROWS = "rows.jsonl"


@dataclass(frozen=True)
class Measured:
    """Every row of a folder, in the order in which they were written."""

    accuracy: tuple[Row, ...]
    cost: tuple[CostRow, ...] = ()


def read_folder(folder: Path) -> Measured:
    """The rows of a suite's folder; at least one of accuracy, or there is nothing to report."""
    path = folder / ROWS
    if not folder.is_dir():
        raise RecipeError(f"{folder}: no such folder; give the one that `smelt bench -o DIR` wrote")
    if not path.is_file():
        raise RecipeError(f"{folder}: has no {ROWS}, so there is nothing to report; `smelt bench -o DIR` writes one")
    try:
        rows = read_rows(path)
    except OSError as error:
        raise CorruptFile(f"{path}: cannot be read ({error.strerror})") from None
    measured = Measured(
        tuple(row for row in rows if isinstance(row, Row)), tuple(row for row in rows if isinstance(row, CostRow))
    )
    if not measured.accuracy:
        raise RecipeError(f"{path}: holds no row of accuracy, so there is nothing to report; let the suite run first")
    return measured
