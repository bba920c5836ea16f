"""The first words about corrupted pictures: the best with and without corruption, and what hurts most."""

from __future__ import annotations

from smelt.reporting.headline import named
from smelt.reporting.pages import Tile
from smelt.reporting.tables.grid import Grid
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import count, percent, plural
from smelt.suites.clip.report.robustness import CLEAN

__all__ = ["robust_sentences", "robust_tiles"]


def robust_sentences(sheet: Sheet) -> list[str]:
    """From the table's blocks and their summary."""
    if sheet.summary is None:
        return []
    short, first = sheet.summary.blocks[0].grid, sheet.blocks[0].grid
    kinds = [block for block in sheet.blocks if block.key != CLEAN]
    entries = {line.entry for line in sheet.lines if line.group != "reference"}
    where = f"{sheet.title}: " if sheet.title else ""
    what = plural(len(entries), "method") if entries else plural(len(sheet.lines), "model")
    clean = "clean and " if len(kinds) < len(sheet.blocks) else ""
    said = [
        f"{where}{what} on the same {count(first.examples)} {sheet.split} pictures of "
        f"{plural(len(first.tasks), 'task')}, {clean}under {plural(len(kinds), 'kind')} of corruption.",
        _best(sheet, short),
        _worst(short) if clean else "",
    ]
    return [sentence for sentence in said if sentence]


def robust_tiles(sheet: Sheet) -> list[Tile]:
    """The best merge on clean and on corrupted pictures, and what the experts keep."""
    tiles = []
    grids = [("Clean", block.grid) for block in sheet.blocks if block.key == CLEAN]
    if sheet.summary:
        grids.append(("Corrupted", sheet.summary.blocks[0].grid))
    for title, grid in grids:
        title = f"{sheet.title}, {title.lower()}" if sheet.title else title
        if grid.best and grid.best.average:
            average, name = grid.best.average.accuracy, grid.best.name
            tiles.append(Tile(f"{title}: best merge", percent(average), name, best=True))
        if grid.experts and grid.experts.average:
            tiles.append(Tile(f"{title}: experts", percent(grid.experts.average.accuracy), "each on its own task"))
    return tiles


def _best(sheet: Sheet, short: Grid) -> str:
    said = []
    clean = next((block.grid for block in sheet.blocks if block.key == CLEAN), None)
    for where, grid in (("On clean pictures", clean), ("under corruption", short)):
        best = grid.best if grid else None
        if best and best.average:
            said.append(f"{where} the best merge, {named(best)}, gets {percent(best.average.accuracy)} %")
    text = "; ".join(said)
    return f"{text[:1].upper()}{text[1:]} on average over the tasks." if text else ""


def _worst(short: Grid) -> str:
    """The corruptions that take most and least from the merges, on average over those that have all numbers."""
    whole = [line for line in short.merges if all(line.cells)]
    if not whole or len(short.tasks) < 3:
        return ""
    known = [[cell.accuracy for cell in line.cells if cell] for line in whole]
    lost = {
        task: 100 * sum(values[0] - values[at] for values in known) / len(known)
        for at, task in enumerate(short.tasks)
        if at
    }
    most, least = max(lost, key=lost.__getitem__), min(lost, key=lost.__getitem__)
    return (
        f"Merges lose most by {_inside(most)}, {lost[most]:.1f} points on average, and least by {_inside(least)}, "
        f"{lost[least]:.1f}."
    )


def _inside(title: str) -> str:
    """A title within a sentence; `JPEG` stays as it is."""
    return title if title[:2].isupper() else title[:1].lower() + title[1:]
