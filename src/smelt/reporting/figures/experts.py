"""Each expert on every task, as data: how much a fine-tune forgets of what it was not tuned for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from smelt.evaluation.row import Row
from smelt.reporting.tables.grid import Grid
from smelt.reporting.tables.lines import EXPERT, is_expert

__all__ = ["Matrix", "experts_matrix"]


@dataclass(frozen=True)
class Matrix:
    """Named rows and columns of numbers; None where nothing was measured."""

    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float | None, ...], ...]


def experts_matrix(rows: Iterable[Row], grid: Grid) -> Matrix | None:
    """Experts × tasks on the split of the table; the pre-trained model comes last. None where there are no experts."""
    found: dict[tuple[str, str], float] = {}
    for row in rows:
        if is_expert(row) and row.split == grid.split and row.corruption is None:
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
