"""Printed numbers along an axis beside ours: for every line and place ours, theirs, and the difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from smelt.errors import CorruptFile
from smelt.evaluation.row import Row
from smelt.files.schema import first_fault
from smelt.reporting.analyses import read_figure
from smelt.reporting.published import ComparedCell
from smelt.suites.collaboration.published_series import SeriesTable
from smelt.suites.collaboration.report.levels import LEVELS
from smelt.suites.collaboration.report.series import level_curves

__all__ = ["ComparedSeries", "compared_series", "read_series"]


@dataclass(frozen=True)
class ComparedSeries:
    """A printed table, and for each of its lines (label, level, cells)."""

    table: SeriesTable
    lines: tuple[tuple[str, str, tuple[ComparedCell, ...]], ...]


def read_series(path: Path) -> tuple[SeriesTable, ...]:
    """The tables of a folder; none where there is no file."""
    content = read_figure(path)
    try:
        return tuple(SeriesTable.model_validate(one) for one in (content or {}).get("tables", ()))
    except (ValidationError, TypeError) as error:
        fault = first_fault(error) if isinstance(error, ValidationError) else str(error)
        raise CorruptFile(f"{path}: {fault}; run the suite again") from None


def compared_series(table: SeriesTable, rows: Sequence[Row]) -> ComparedSeries:
    """What our rows say at each place: the mean over the tasks, in percent."""
    curves = {(one.entry, one.part): one for one in level_curves(rows, table.axis)}
    lines = []
    for line in table.lines.values():
        curve = curves.get((line.entry, line.part))
        ours = curve.points[line.level] if curve else {}
        cells = tuple(
            ComparedCell(100 * ours[place].accuracy if place in ours else None, value)
            for place, value in zip(table.places, line.values, strict=True)
        )
        lines.append((line.label, LEVELS[line.level], cells))
    return ComparedSeries(table, tuple(lines))
