"""Seen and unseen tasks: a suite that leaves experts out, part by part, as tables.

A task is seen where its own expert was among the merged models. References belong to every part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from smelt.evaluation.row import Row
from smelt.reporting.tables.grid import Grid, grid_of, tasks_of
from smelt.reporting.tables.sheet import Block, Sheet

__all__ = ["SEEN", "UNSEEN", "part_sheet", "rows_by_part"]

SEEN, UNSEEN = "seen", "unseen"
_TITLES = {SEEN: "Seen tasks", UNSEEN: "Unseen tasks"}


def rows_by_part(rows: Sequence[Row]) -> dict[str | None, list[Row]]:
    """The rows of every part with the references, which belong to all; a suite without parts is one, without a name."""
    names = list(dict.fromkeys(row.part for row in rows if row.part is not None))
    shared = [row for row in rows if row.part is None]
    alone = any(row.variant != "reference" or row.way != "merge" for row in shared)
    found: dict[str | None, list[Row]] = {None: shared} if alone or not names else {}
    references = [row for row in shared if row.variant == "reference" and row.way == "merge"]
    return found | {name: [*references, *(row for row in rows if row.part == name)] for name in names}


def part_sheet(part: str, rows: Sequence[Row], split: str) -> Sheet:
    """One part: the seen tasks, their average, the unseen tasks, and theirs."""
    known = {row.task: row.seen for row in rows if row.seen is not None}
    tasks = {
        SEEN: [t for t in tasks_of(rows) if known.get(t)],
        UNSEEN: [t for t in tasks_of(rows) if known.get(t) is False],
    }
    blocks = [Block(key, _TITLES[key], _grid(rows, tasks[key], split, key)) for key in (SEEN, UNSEEN) if tasks[key]]
    if not blocks:
        blocks = [Block("", "", grid_of(rows, tasks_of(rows), split, average="Avg.", share=False))]
    without = ", ".join(tasks[UNSEEN])
    about = f"The experts of the unseen tasks ({without}) are not among the models that were merged." if without else ""
    return Sheet(tuple(blocks), part, about, across=2, part=part)


def _grid(rows: Sequence[Row], tasks: Sequence[str], split: str, key: str) -> Grid:
    grid = grid_of(rows, tasks, split, average="Avg.", share=False)
    note = "each on its own task, those of unseen tasks too"
    return replace(grid, lines=tuple(replace(m, note=note) if m.entry == "experts" else m for m in grid.lines))
