"""A line of the printed table: what stands beside its label, and its numbers: tasks, average, gap, share of experts."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.reporting.tables.grid import Grid, Line
from smelt.reporting.tables.sheet import Block, Sheet
from smelt.reporting.words import setting_text

__all__ = ["beside", "columns", "has_gap", "has_ratio", "heads", "note_of", "tier_columns"]


def has_ratio(grid: Grid) -> bool:
    """Whether any line can be compared with the experts."""
    return any(line.normalised is not None for line in grid.lines)


def has_gap(grid: Grid) -> bool:
    """Whether merging and ensembling are compared on any line."""
    return any(line.gap is not None for line in grid.lines)


def heads(grid: Grid) -> list[str]:
    """The headings after the name."""
    average = [grid.average] if grid.average else []
    return [*grid.tasks, *average, *(["Gap"] if has_gap(grid) else []), *([grid.share] if has_ratio(grid) else [])]


def columns(line: Line, grid: Grid) -> list[tuple[float | None, int]]:
    """(value, rank) for every column after the name."""
    cells = (*line.cells, line.average) if grid.average else line.cells
    found: list[tuple[float | None, int]] = [(cell.accuracy, cell.rank) if cell else (None, 0) for cell in cells]
    found += [(line.gap, line.gap_rank)] if has_gap(grid) else []
    return [*found, (line.normalised, line.normalised_rank)] if has_ratio(grid) else found


def tier_columns(lines: Sequence[Line], tier: Sequence[Block]) -> list[tuple[float | None, int]]:
    """The same for blocks side by side."""
    return [one for line, block in zip(lines, tier, strict=True) for one in columns(line, block.grid)]


def note_of(line: Line, sheet: Sheet) -> str:
    """What stands beside a label; where lines are repeated block after block, what its short form does not say."""
    if sheet.summary is None:
        return beside(line)
    return "; ".join(filter(None, ["tuned" if line.variant == "tuned" else "", line.loud]))


def beside(line: Line) -> str:
    """`density 0.2, scale 0.3`, `tuned: scale 0.4`, `each on its own task`, the data it used, or nothing."""
    text = "; ".join(filter(None, [line.note, setting_text(line.setting)]))
    if line.variant == "tuned":
        text = f"tuned: {text}" if text else "tuned"
    return "; ".join(filter(None, [text, line.data, line.loud]))
