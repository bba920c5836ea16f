"""The first words about a hub: who chooses best, by how much, and how far that is from the best possible choice."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.evaluation.row import Row
from smelt.reporting.pages import Tile
from smelt.reporting.tables.cells import surely_above
from smelt.reporting.tables.grid import best_first
from smelt.reporting.tables.lines import TableLine
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import count, percent, plural
from smelt.suites.hub.report.analyses import HubAnalyses
from smelt.suites.hub.report.tables import HUB, ORACLE, is_hub_sheet
from smelt.suites.hub.row_parts import MODELS

__all__ = ["hub_sentences", "hub_tiles"]

_OURS = "mll"
"""The entries that choose by labels begin with this word; the one that is called so is the paper's reading."""


def hub_sentences(rows: Sequence[Row], sheets: Sequence[Sheet], analyses: HubAnalyses) -> list[str]:
    """What was compared, then table by table who wins, and whether a larger hub is a better one."""
    tables = [sheet for sheet in sheets if is_hub_sheet(sheet)]
    models = len({row.entry for row in rows if row.part == MODELS})
    if not tables:
        return [f"{plural(models, 'model')} of a hub were tested so far; the tables follow when the suite has run."]
    grid = tables[0].blocks[0].grid
    said = [
        f"{plural(models, 'model')} of a hub were labelled once on a semantic graph. For "
        f"{plural(len(grid.tasks), 'task')}, described in words alone, some of them were selected and answered "
        f"together, on {count(grid.examples)} {grid.split} pictures."
    ]
    said += [text for sheet in tables if (text := _who_wins(sheet))]
    return [*said, *_grows(analyses)]


def hub_tiles(sheets: Sequence[Sheet]) -> list[Tile]:
    """Of the first table: labels, the best of the other ways, the oracle, and a model that nobody chose."""
    sheet = next((sheet for sheet in sheets if is_hub_sheet(sheet)), None)
    if sheet is None:
        return []
    ours, other = _ours(sheet.lines), _other(sheet.lines)
    ahead = bool(ours and other and ours.average and other.average and ours.average.accuracy > other.average.accuracy)
    shown = [(ours, "Chosen by labels", ahead), (other, "Chosen otherwise", bool(other) and not ahead)]
    shown += [(line, line.label, False) for line in sheet.lines if line.group == "reference"]
    return [
        Tile(title, percent(line.average.accuracy), line.name if title != line.label else _below(line), best=best)
        for line, title, best in shown
        if line and line.average
    ]


def _below(line: TableLine) -> str:
    return "the best on the test pictures" if line.entry == ORACLE else "on average, chosen by nobody"


def _ours(lines: Sequence[TableLine]) -> TableLine | None:
    own = [line for line in lines if line.group == HUB and line.entry.startswith(_OURS) and line.average]
    return next((line for line in own if line.entry == _OURS), own[0] if own else None)


def _other(lines: Sequence[TableLine]) -> TableLine | None:
    return next(iter(best_first(m for m in lines if m.group == HUB and not m.entry.startswith(_OURS))), None)


def _who_wins(sheet: Sheet) -> str:
    """`1 model per class (k = 1): MLL gets 61.2 %, 2.1 points above Best on the graph (59.1 %), …`."""
    best = best_first(line for line in sheet.lines if line.group == HUB)
    ours = _ours(sheet.lines)
    if not best or ours is None or ours.average is None:
        return ""
    said = f"{sheet.title}: {ours.label} gets {percent(ours.average.accuracy)} % on average"
    others = best_first(m for m in sheet.lines if m.group == HUB and not m.entry.startswith(_OURS))
    said += "".join(f"{', ' if not place else ' and '}{_beside(ours, one)}" for place, one in enumerate(others[:2]))
    if best[0] is not ours and best[0].average:
        said += f"; the best is {best[0].label} with {percent(best[0].average.accuracy)} %"
    references = [
        f"{line.label.lower()} {percent(line.average.accuracy)} %"
        for line in sheet.lines
        if line.group == "reference" and line.average
    ]
    return f"{said}. For comparison: {', '.join(references)}." if references else f"{said}."


def _beside(ours: TableLine, other: TableLine) -> str:
    if ours.average is None or other.average is None:
        return ""
    apart = 100 * (ours.average.accuracy - other.average.accuracy)
    upper, lower = (ours.average, other.average) if apart >= 0 else (other.average, ours.average)
    sure = "" if surely_above(upper, lower) else ", within the 95 % interval of the difference"
    side = "above" if apart >= 0 else "below"
    return f"{abs(apart):.1f} points {side} {other.label} ({percent(other.average.accuracy)} %{sure})"


def _grows(analyses: HubAnalyses) -> list[str]:
    growth = analyses.growth
    line = growth and growth.lines.get(_OURS)
    if not growth or not line or growth.sizes < 2:
        return []
    half = (growth.sizes + 1) // 2
    return [
        f"A larger hub: {line.label} goes from {percent(line.mean[0])} % with one model over "
        f"{percent(line.mean[half - 1])} % with {half} to {percent(line.mean[-1])} % with all {growth.sizes} "
        f"(mean of {growth.orders} random orders)."
    ]
