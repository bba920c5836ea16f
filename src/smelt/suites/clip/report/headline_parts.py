"""The first words about a part of a suite that leaves experts out: how good on seen tasks, and on unseen ones."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.reporting.headline import named, pictures_of
from smelt.reporting.tables.cells import Cell, surely_above
from smelt.reporting.tables.grid import Grid, Line
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import count, percent, plural
from smelt.suites.clip.report.parts import SEEN, UNSEEN

__all__ = ["best_of", "part_sentences", "parts_sentence"]


def parts_sentence(sheets: Sequence[Sheet]) -> str:
    """What all parts have in common: methods, tasks and pictures."""
    methods = {line.entry for sheet in sheets for line in sheet.lines if line.group != "reference"}
    pictures = max(sum(pictures_of(block.grid) for block in sheet.blocks) for sheet in sheets)
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


def best_of(grid: Grid) -> Line | None:
    """The merge with the highest average."""
    return next(iter(grid.ranked), None)


def _what(sheet: Sheet, seen: Grid | None, unseen: Grid | None) -> str:
    if seen is None or unseen is None:
        return (
            f"{sheet.title}: {plural(len(sheet.lines), 'model')} on {plural(len(sheet.blocks[0].grid.tasks), 'task')}."
        )
    left = " and ".join(unseen.tasks)
    said = f"{sheet.title}: merged from the experts of {plural(len(seen.tasks), 'task')}, without those of {left}."
    for where, grid in (("seen", seen), ("unseen", unseen)):
        best, base = best_of(grid), _base(grid)
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
