"""Seen and unseen tasks: a suite that leaves experts out, part by part, as tables and in words.

A task is seen where its own expert was among the merged models. References belong to every part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from smelt.evaluation.row import Row
from smelt.reporting.headline import named
from smelt.reporting.pages import Tile
from smelt.reporting.tables.cells import Cell, surely_above
from smelt.reporting.tables.grid import Grid, grid_of, tasks_of
from smelt.reporting.tables.lines import EXPERTS
from smelt.reporting.tables.sheet import ColumnBlock, Sheet
from smelt.reporting.words import count, percent, plural
from smelt.suites.clip.report.corruption import CorruptionReader

__all__ = ["SEEN", "UNSEEN", "part_sentences", "part_sheet", "part_tiles", "parts_sentence"]

SEEN, UNSEEN = "seen", "unseen"
_TITLES = {SEEN: "Seen tasks", UNSEEN: "Unseen tasks"}


def part_sheet(part: str, rows: Sequence[Row], split: str) -> Sheet:
    """One part: the seen tasks, their average, the unseen tasks, and theirs."""
    known = {row.task: row.seen for row in rows if row.seen is not None}
    tasks = {
        SEEN: [t for t in tasks_of(rows) if known.get(t)],
        UNSEEN: [t for t in tasks_of(rows) if known.get(t) is False],
    }
    blocks = [ColumnBlock(key, _TITLES[key], _grid(rows, tasks[key], split)) for key in (SEEN, UNSEEN) if tasks[key]]
    if not blocks:
        blocks = [
            ColumnBlock("", "", grid_of(rows, tasks_of(rows), split, CorruptionReader(), average="Avg.", share=False))
        ]
    without = ", ".join(tasks[UNSEEN])
    about = f"The experts of the unseen tasks ({without}) are not among the models that were merged." if without else ""
    return Sheet(tuple(blocks), part, about, across=2, part=part)


def _grid(rows: Sequence[Row], tasks: Sequence[str], split: str) -> Grid:
    grid = grid_of(rows, tasks, split, CorruptionReader(), average="Avg.", share=False)
    note = "each on its own task, those of unseen tasks too"
    return replace(grid, lines=tuple(replace(m, note=note) if m.entry == EXPERTS else m for m in grid.lines))


def parts_sentence(sheets: Sequence[Sheet]) -> str:
    """What all parts have in common: methods, tasks and pictures."""
    methods = {line.entry for sheet in sheets for line in sheet.lines if line.group != "reference"}
    pictures = max(sum(block.grid.examples for block in sheet.blocks) for sheet in sheets)
    tasks = max(sum(len(block.grid.tasks) for block in sheet.blocks) for sheet in sheets)
    return (
        f"{plural(len(methods), 'method')} made one model from some of the experts, in {plural(len(sheets), 'part')}; "
        f"tasks whose expert was left out are unseen. Every model was tested on the same {count(pictures)} "
        f"{sheets[0].split} pictures of {plural(tasks, 'task')}."
    )


def part_sentences(sheet: Sheet) -> list[str]:
    """What was left out, the best merge on either side, and how many merges help or hurt on unseen tasks."""
    grids = {block.key: block.grid for block in sheet.blocks}
    seen, unseen = grids.get(SEEN), grids.get(UNSEEN)
    said = [_what(sheet, seen, unseen)]
    if unseen is not None:
        said.append(_against_base(unseen))
    return [sentence for sentence in said if sentence]


def part_tiles(sheet: Sheet) -> list[Tile]:
    """The best merge of every block."""
    found = []
    for block in sheet.blocks:
        best = block.grid.best
        if best and best.average:
            title = ", ".join(filter(None, [sheet.title, block.title.lower()]))
            found.append(Tile(title, percent(best.average.accuracy), best.name, best=True))
    return found


def _what(sheet: Sheet, seen: Grid | None, unseen: Grid | None) -> str:
    if seen is None or unseen is None:
        return (
            f"{sheet.title}: {plural(len(sheet.lines), 'model')} on {plural(len(sheet.blocks[0].grid.tasks), 'task')}."
        )
    left = " and ".join(unseen.tasks)
    said = f"{sheet.title}: merged from the experts of {plural(len(seen.tasks), 'task')}, without those of {left}."
    for where, grid in (("seen", seen), ("unseen", unseen)):
        best, base = grid.best, _base(grid)
        if best and best.average:
            said += f" On the {where} tasks the best merge, {named(best)}, gets {percent(best.average.accuracy)} %"
            said += f" on average (the pre-trained model {percent(base.accuracy)} %)." if base else " on average."
    return said


def _base(grid: Grid) -> Cell | None:
    return grid.base.average if grid.base else None


def _against_base(unseen: Grid) -> str:
    base, averages = _base(unseen), [line.average for line in unseen.ranked if line.average]
    if base is None or not averages:
        return ""
    above = sum(surely_above(one, base) for one in averages)
    below = sum(surely_above(base, one) for one in averages)
    return (
        f"On the unseen tasks, of {plural(len(averages), 'merge')} {_are(above)} above the pre-trained model by more "
        f"than the 95 % interval of the difference, and {_are(below)} below it by more."
    )


def _are(number: int) -> str:
    return f"{number} {'is' if number == 1 else 'are'}"
