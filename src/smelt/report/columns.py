"""A line of the printed table: what stands beside its label, and its numbers: tasks, average, normalised average."""

from __future__ import annotations

from smelt.report.grid import Grid, Line
from smelt.report.words import setting_text

__all__ = ["beside", "columns", "has_ratio"]


def has_ratio(grid: Grid) -> bool:
    """Whether any line can be compared with the experts."""
    return any(line.normalised is not None for line in grid.lines)


def columns(line: Line, grid: Grid) -> list[tuple[float | None, int]]:
    """(value, rank) for every column after the name."""
    found = [(cell.accuracy, cell.rank) if cell else (None, 0) for cell in (*line.cells, line.average)]
    return [*found, (line.normalised, line.normalised_rank)] if has_ratio(grid) else list(found)


def beside(line: Line) -> str:
    """`density 0.2, scale 0.3`, `tuned: scale 0.4`, `each on its own task`, or nothing."""
    text = line.note or setting_text(line.setting)
    if line.variant != "tuned":
        return text
    return f"tuned: {text}" if text else "tuned"
