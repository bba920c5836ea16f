"""Corrupted pictures: accuracy by kind of corruption as a table, and against severity as curves.

A number of the table is the mean over the severities that were measured. A line that lacks some of them says so and
takes no place. Severity 0 is the clean picture.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from smelt.evaluation.row import Row
from smelt.reporting.draw.axis import span
from smelt.reporting.draw.panel import Stroke, panel
from smelt.reporting.figures.charts import Chart
from smelt.reporting.tables.cells import Cell, cell_of, mean_cell, mean_on_same_examples
from smelt.reporting.tables.grid import Grid, best_first, grid_of, tasks_of
from smelt.reporting.tables.lines import TableLine
from smelt.reporting.tables.ranks import with_ranks
from smelt.reporting.tables.sheet import ColumnBlock, Sheet
from smelt.suites.clip.report.corruption import (
    CorruptionReader,
    adapted_to_corruption,
    is_stored,
    kind_and_severity,
    kind_text,
    severities_text,
)

__all__ = ["CLEAN", "SeverityCurves", "SeverityFigure", "robust_sheet", "severity_curves", "severity_figure"]

CLEAN = "clean"
Severities = dict[str, list[int]]


@dataclass(frozen=True)
class SeverityCurves:
    """One kind of corruption: for every line of the table, in its order, (severity, average over the tasks)."""

    kind: str
    title: str
    lines: tuple[tuple[tuple[float, float], ...], ...]


def robust_sheet(rows: Sequence[Row], split: str, part: str | None = None) -> Sheet:
    """Blocks of tasks: the clean pictures, then every kind of corruption, two side by side; and all in short."""
    tasks, severities = tasks_of(rows), _severities(rows)
    kinds = ([CLEAN] if any(row.corruption is None for row in rows) else []) + list(severities)
    blocks = tuple(
        ColumnBlock(kind, _title(kind), _incomplete(_grid(rows, tasks, split, kind, severities), severities))
        for kind in kinds
    )
    about = " ".join(filter(None, [_about(severities), _adapted(blocks[0].grid.lines)]))
    title = part or ""
    return Sheet(blocks, title, about, 2, headings=False, part=part, summary=_summary(blocks, title, about, part))


def severity_curves(sheet: Sheet) -> list[SeverityCurves]:
    """A curve for every kind and line, from what the table's lines are made of."""
    tasks = sheet.blocks[0].grid.tasks
    return [
        SeverityCurves(block.key, block.title, tuple(_points(line, block.key, tasks) for line in block.grid.lines))
        for block in sheet.blocks
        if block.key != CLEAN and not is_stored(block.key)
    ]


def _points(line: TableLine, kind: str, tasks: Sequence[str]) -> tuple[tuple[float, float], ...]:
    """Severities that have every task, in rising order; 0 is clean."""
    at: dict[int, dict[str, Cell]] = {}
    for row in line.rows:
        name, severity = (kind, 0) if row.corruption is None else kind_and_severity(row.corruption)
        if name == kind:
            at.setdefault(severity, {})[row.task] = cell_of(row)
    means = ((severity, mean_cell([cells.get(task) for task in tasks])) for severity, cells in sorted(at.items()))
    return tuple((float(severity), mean.accuracy) for severity, mean in means if mean is not None)


def _severities(rows: Sequence[Row]) -> Severities:
    """The severities of every kind, kinds in the order of the suite."""
    found: Severities = {}
    for row in rows:
        if row.corruption is not None:
            kind, severity = kind_and_severity(row.corruption)
            found.setdefault(kind, []).append(severity)
    return {kind: sorted(set(values)) for kind, values in found.items()}


def _grid(rows: Sequence[Row], tasks: Sequence[str], split: str, kind: str, severities: Severities) -> Grid:
    cell = partial(_cell, kind=kind, severities=severities.get(kind, []))
    return grid_of(rows, tasks, split, CorruptionReader(), cell=cell, average="Avg.", share=False)


def _cell(rows: Sequence[Row], kind: str, severities: Sequence[int]) -> Cell | None:
    """The mean over the severities of one kind; the number itself on clean pictures."""
    if kind == CLEAN:
        clean = [row for row in rows if row.corruption is None]
        return cell_of(clean[-1]) if clean else None
    latest: dict[int, Cell] = {}
    for row in rows:
        name, severity = kind_and_severity(row.corruption) if row.corruption else ("", 0)
        if name == kind:
            latest[severity] = cell_of(row)
    return mean_on_same_examples(list(latest.values()), whole=len(latest) == len(severities))


def _incomplete(grid: Grid, severities: Severities) -> Grid:
    """A line that was measured at fewer severities than others says at which."""
    most = sorted({severity for values in severities.values() for severity in values})

    def noted(line: TableLine) -> TableLine:
        own = sorted({kind_and_severity(row.corruption)[1] for row in line.rows if row.corruption})
        if not own or own == most:
            return line
        return replace(line, note=", ".join(filter(None, [line.note, f"{severities_text(own)} only"])))

    return replace(grid, lines=tuple(map(noted, grid.lines)))


def _summary(blocks: Sequence[ColumnBlock], title: str, about: str, part: str | None) -> Sheet:
    """Kinds across: the averages of all blocks, and their mean over the corruptions."""
    lines = []
    for same in zip(*(block.grid.lines for block in blocks), strict=True):
        cells = tuple(line.average and replace(line.average, rank=0) for line in same)
        worse = [cell for cell, block in zip(cells, blocks, strict=True) if block.key != CLEAN]
        known = [cell for cell in worse if cell is not None]
        average = mean_on_same_examples(known) if len(known) == len(worse) else None
        lines.append(replace(same[0], cells=cells, average=average))
    titles = tuple(block.title for block in blocks)
    grid = Grid(titles, blocks[0].grid.split, tuple(with_ranks(lines)), "Corrupted")
    more = "Averages over the tasks; the last column is the mean over the corruptions."
    return Sheet((ColumnBlock("average", "", grid),), title, f"{more} {about}", part=part, axis="corruption")


def _adapted(lines: Sequence[TableLine]) -> str:
    """Which pictures the methods that use data saw: clean ones, or corrupted ones."""
    used = [line for line in lines if line.data]
    anew = [line for line in used if any(adapted_to_corruption(row) for row in line.rows)]
    clean = [line.name for line in used if line not in anew]
    said = [f"Adapted or measured on clean pictures: {', '.join(clean)}."] if clean else []
    said += [f"Adapted on corrupted pictures: {', '.join(line.name for line in anew)}."] if anew else []
    return " ".join(said)


def _title(kind: str) -> str:
    return "Clean" if kind == CLEAN else kind_text(kind)


def _about(severities: Severities) -> str:
    """`Under corruption: the mean over severities 1 to 5.`; by kind, where kinds differ."""
    found: dict[str, list[str]] = {}
    for kind, values in severities.items():
        if not is_stored(kind):
            found.setdefault(severities_text(values), []).append(kind_text(kind))
    if len(found) == 1:
        said = [f"A corruption's number is the mean over {next(iter(found))}."]
    else:
        each = "; ".join(f"{text} of {', '.join(kinds)}" for text, kinds in found.items())
        said = [f"A corruption's number is the mean over {each}."] if found else []
    stored = "Stored pictures are those that the data sets hold damaged." if any(map(is_stored, severities)) else ""
    return " ".join(filter(None, [*said, stored]))


_COLOURS = 6
"""Methods that can be told apart by colour; two more colours are the base's and the experts'."""


@dataclass(frozen=True)
class SeverityFigure:
    """The charts of one table, and what the colours mean: (name, number of the palette)."""

    title: str
    charts: tuple[Chart, ...]
    keys: tuple[tuple[str, int], ...]
    others: bool
    """Whether methods are left that have no colour."""


def severity_figure(sheet: Sheet) -> SeverityFigure | None:
    """All kinds on the same axes. The best six methods under corruption have a colour, the others are grey."""
    curves = severity_curves(sheet)
    if sheet.summary is None or not any(len(points) > 1 for one in curves for points in one.lines):
        return None
    colours = _colours(sheet.summary.blocks[0].grid)
    every = [point for one in curves for points in one.lines for point in points]
    x = (0.0, max(severity for severity, _ in every))
    y = span([value for _, value in every])
    names = [line.name for line in sheet.lines]
    ticks = [(float(tick), str(tick)) for tick in range(int(x[1]) + 1)]
    charts = []
    for one in curves:
        roles = (f"c{colours[at]}" if at in colours else "ghost" for at in range(len(names)))
        strokes = list(map(Stroke, names, one.lines, roles))
        title = f"{one.title}: average accuracy in % against the severity"
        charts.append(Chart(one.title, panel(title, strokes, x=x, y=y, x_ticks=ticks)))
    keys = tuple((names[at], colour) for at, colour in colours.items())
    return SeverityFigure(sheet.title, tuple(charts), keys, len(keys) < len(sheet.lines))


def _colours(short: Grid) -> dict[int, int]:
    """The palette's number by the place of a line in the table."""
    place = {id(line): at for at, line in enumerate(short.lines)}
    found = {place[id(line)]: colour for colour, line in enumerate((short.base, short.experts)) if line}
    methods = [line for line in short.lines if line.group not in ("reference", "single")]
    best = best_first(methods)
    chosen = sorted(place[id(line)] for line in [*best, *(m for m in methods if m not in best)][:_COLOURS])
    return found | {at: colour for colour, at in enumerate(chosen, 2)}
