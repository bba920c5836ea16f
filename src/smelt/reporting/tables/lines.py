"""The lines of a table: rows of one model brought together, in groups by how the model was made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from smelt.evaluation.row import Row
from smelt.reporting.budget import adapted_to_corruption, data_text, loud_text, split_words, uses_split
from smelt.reporting.tables.cells import Cell, cell_of, mean_cell
from smelt.suites.hub.parts import is_hub

__all__ = ["EXPERT", "GROUPS", "NEULIG", "SHOWN", "CellOf", "Group", "Line", "is_expert", "last_cell", "lines_of"]

EXPERT = "expert-"
"""An expert's entry is this word and its own task: `expert-photos`."""

NEULIG = "neulig"
"""What every entry of that method begins with: `neulig-supervised`, `neulig-semi-map`."""

Group = Literal["reference", "data-free", "data-driven", "mix", "ensemble", "collaboration", "neulig", "hub", "single"]
GROUPS: dict[Group, str] = {
    "reference": "Reference",
    "data-free": "Model merging (data-free)",
    "data-driven": "Model merging (with data)",
    "mix": "Model mixing",
    "ensemble": "Ensembles (reference: several models are run)",
    "collaboration": "Multi-task collaboration",
    "neulig": "Neural Ligand",
    "hub": "Selection and reuse",
    "single": "Single models",
}
SHOWN = ("reference", "published", "tuned", "single")
"""The variants that a table has; rows along curves and paths are left to their figures."""

CellOf = Callable[[Sequence[Row]], Cell | None]
"""From the rows of one model on one task to the number of the table."""


@dataclass(frozen=True)
class Line:
    """One model, or the experts taken together, on every task."""

    entry: str
    variant: str
    label: str
    setting: dict[str, Any]
    group: Group
    cells: tuple[Cell | None, ...]
    rows: tuple[Row, ...]
    average: Cell | None = None
    normalised: float | None = None
    normalised_rank: int = 0
    normalised_interval: tuple[float, float] | None = None
    gap: float | None = None
    """How far merging and ensembling are apart, where a suite compares the two."""
    gap_rank: int = 0
    note: str = ""
    data: str = ""
    """The data that made the model, in words; empty where none did."""
    loud: str = ""
    """A warning: the model was made with the pictures that it is tested on."""
    short: str = ""
    """What stands above its column where lines are columns; the name unless given."""

    @property
    def merged(self) -> bool:
        """Whether it is one model of the experts' own size."""
        return self.group in ("data-free", "data-driven")

    @property
    def name(self) -> str:
        """The label with what tells it from its published twin."""
        return f"{self.label} (tuned)" if self.variant == "tuned" else self.label

    @property
    def part(self) -> str | None:
        """The part of the suite that it belongs to, if the suite has parts."""
        return next((row.part for row in self.rows if row.part), None)


def is_expert(row: Row) -> bool:
    """Whether a row is of one of the models that were merged."""
    return row.variant == "reference" and row.entry.startswith(EXPERT)


def last_cell(rows: Sequence[Row]) -> Cell | None:
    """A task that was measured twice counts as measured last."""
    return cell_of(rows[-1]) if rows else None


def lines_of(rows: Sequence[Row], tasks: Sequence[str], split: str, cell: CellOf = last_cell) -> list[Line]:
    """Every model of the rows, in the order of the table; the experts together are one line."""
    lines = [_line(model, tasks, split, cell) for model in _by_model(row for row in rows if not is_expert(row))]
    experts = [row for row in rows if is_expert(row)]
    return _in_order([*lines, *([_experts(experts, tasks, cell)] if experts else [])])


def _by_model(rows: Iterable[Row]) -> list[list[Row]]:
    """Rows of one model together. Of an entry that was tuned twice, to different settings, the last one counts.

    A method that adapts anew to every corruption is another line than the one that adapted to clean pictures once; on
    clean pictures the two are the same.
    """
    rows = list(rows)
    tuned = {row.entry: row.recipe_hash for row in rows if row.variant == "tuned"}
    models: dict[tuple[tuple[str, str, str, str], bool], list[Row]] = {}
    for row in rows:
        if row.variant == "tuned" and row.recipe_hash != tuned[row.entry]:
            continue
        key = (row.entry, str(row.variant), json.dumps(row.setting, sort_keys=True, default=str), str(row.seed))
        models.setdefault((key, adapted_to_corruption(row)), []).append(row)
    for key in [same for same, anew in models if anew]:
        twin = models.get((key, False), [])
        models[key, True] = [*(row for row in twin if row.corruption is None), *models[key, True]]
        if twin and not any(row.corruption for row in twin):
            del models[key, False]
    return list(models.values())


def _line(rows: Sequence[Row], tasks: Sequence[str], split: str, cell: CellOf) -> Line:
    first = rows[0]
    cells = tuple(cell([row for row in rows if row.task == task]) for task in tasks)
    anew = ""
    if any(map(adapted_to_corruption, rows)):
        own = all(row.corruption in split_words(row.data_budget) for row in rows if row.corruption)
        anew = ", adapted to each corruption" if own else ", adapted on damaged pictures"
    return Line(
        first.entry,
        first.variant,
        first.label + anew,
        first.setting,
        _group(first),
        cells,
        tuple({(row.task, row.corruption, row.level): row for row in rows}.values()),
        mean_cell(cells),
        data=data_text(rows),
        loud=loud_text(split) if uses_split(rows, split) else "",
    )


def _group(row: Row) -> Group:
    if row.variant == "single":
        return "single"
    if is_hub(row):
        return "reference" if row.variant == "reference" else "hub"
    if row.level is not None:
        return "neulig" if row.entry.startswith(NEULIG) else "collaboration"
    if row.way != "merge":
        return row.way
    if row.variant == "reference":
        return "reference"
    return "data-driven" if row.data_budget.images and row.variant == "published" else "data-free"


def _experts(rows: Sequence[Row], tasks: Sequence[str], cell: CellOf) -> Line:
    own = [row for row in rows if row.entry == EXPERT + row.task]
    cells = tuple(cell([row for row in own if row.task == task]) for task in tasks)
    kept = tuple({(row.task, row.corruption): row for row in own}.values())
    note = "each on its own task"
    return Line("experts", "reference", "Fine-tuned experts", {}, "reference", cells, kept, mean_cell(cells), note=note)


def _in_order(lines: Sequence[Line]) -> list[Line]:
    """By group, and a tuned line below the published one of the same entry, whose group it shares."""
    groups: dict[str, Group] = {line.entry: line.group for line in lines if line.variant == "published"}
    lines = [replace(m, group=groups[m.entry]) if m.variant == "tuned" and m.entry in groups else m for m in lines]
    heads = list(GROUPS)
    entries = list(dict.fromkeys(line.entry for line in lines))
    return sorted(lines, key=lambda m: (heads.index(m.group), entries.index(m.entry), SHOWN.index(m.variant)))
