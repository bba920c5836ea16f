"""Selecting models of a hub as tables: the methods over the tasks for every k, and one method over alpha and over k.

    Of oracle = average accuracy / average of the models that are best on the very test pictures

The oracle and a model that nobody chose are references and take no place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from smelt.evaluation.row import CostRow, Row
from smelt.reporting.tables.cells import Cell, mean_cell
from smelt.reporting.tables.grid import Grid, tasks_of
from smelt.reporting.tables.lines import Line, last_cell, lines_of
from smelt.reporting.tables.ranks import places
from smelt.reporting.tables.sheet import Block, Sheet
from smelt.reporting.words import plural, setting_text
from smelt.suites.hub.parts import ALPHA, COUNT, is_hub, models_per_class, table_parts

__all__ = ["OF_ORACLE", "ORACLE", "hub_sheets", "is_hub_sheet"]

ORACLE = "oracle"
"""The entry that knows the test pictures."""
OF_ORACLE = "Of oracle"
_ABOUT = (
    "Models are chosen before any picture of a task is seen, from labels on the semantic graph or from text; then the "
    "chosen ones answer together, by the same rule for every method. Oracle: the {best} on these very test pictures. "
    "Of oracle: the average in % of the oracle's."
)
_PLACES = "Best method of a column in bold, second underlined; references take no place."
_SWEEPS = {
    ALPHA: ("alpha", "Over alpha", "Columns: alpha, the weight of the class itself beside that of the whole task."),
    COUNT: ("k", "Over k", "Columns: k, how many models each class gets."),
}


def is_hub_sheet(sheet: Sheet) -> bool:
    """Whether a table compares ways to choose models."""
    return models_per_class(sheet.part) is not None


def hub_sheets(rows: Sequence[Row], costs: Iterable[CostRow] = ()) -> list[Sheet]:
    """A table for every k, then those along an axis that were measured."""
    own = [row for row in rows if is_hub(row)]
    tables = [_table(part, [row for row in own if row.part == part]) for part in table_parts(own)]
    sweeps = [_sweep(part, [row for row in own if row.part == part], list(costs)) for part in _SWEEPS]
    return [*tables, *(sheet for sheet in sweeps if sheet is not None)]


def _table(part: str, rows: Sequence[Row]) -> Sheet:
    tasks, split, k = tasks_of(rows), rows[0].split, models_per_class(part) or 1
    title = f"{plural(k, 'model')} per class (k = {k})"
    lines = _ranked(_of_oracle(lines_of(rows, tasks, split)))
    grid = Grid(tasks, split, tuple(lines), "Avg.", OF_ORACLE)
    about = _ABOUT.format(best="best model" if k == 1 else f"{k} best models by themselves, together no bound,")
    return Sheet((Block("", "", grid),), title, about, part=part, places=_PLACES)


def _of_oracle(lines: Sequence[Line]) -> list[Line]:
    oracle = next((line.average for line in lines if line.entry == ORACLE), None)
    if oracle is None or not oracle.accuracy:
        return list(lines)
    return [replace(m, normalised=m.average.accuracy / oracle.accuracy if m.average else None) for m in lines]


def _ranked(lines: Sequence[Line]) -> list[Line]:
    """The same lines with the best and the second method of every column marked."""
    rivals = [line for line in lines if line.group == "hub"]
    columns = [places([_number(line.cells[at]) for line in rivals]) for at in range(len(lines[0].cells))]
    averages = places([_number(line.average) for line in rivals])
    shares = places([-1.0 if line.normalised is None else line.normalised for line in rivals])

    def ranked(line: Line) -> Line:
        if line.group != "hub":
            return line
        cells = tuple(_placed(cell, column) for cell, column in zip(line.cells, columns, strict=True))
        share = 0 if line.normalised is None else shares.get(line.normalised, 0)
        return replace(line, cells=cells, average=_placed(line.average, averages), normalised_rank=share)

    return [ranked(line) for line in lines]


def _number(cell: Cell | None) -> float:
    return -1.0 if cell is None else cell.accuracy


def _placed(cell: Cell | None, found: dict[float, int]) -> Cell | None:
    return cell and replace(cell, rank=found.get(cell.accuracy, 0))


def _sweep(part: str, rows: Sequence[Row], costs: Sequence[CostRow]) -> Sheet | None:
    """One method along an axis: averages over the tasks; over k what each took, in % of the first."""
    axis, title, about = _SWEEPS[part]
    at = sorted({float(row.setting[axis]) for row in rows})
    if len(at) < 2:
        return None
    tasks, first = tasks_of(rows), rows[0]
    cells = []
    for x in at:
        here = [row for row in rows if float(row.setting[axis]) == x]
        cells.append(mean_cell([last_cell([row for row in here if row.task == task]) for task in tasks]))
    found = places([_number(cell) for cell in cells])
    fixed = setting_text({word: value for word, value in first.setting.items() if word != axis})
    marked = tuple(_placed(cell, found) for cell in cells)
    line = Line(first.entry, "curve", first.label, {}, "hub", marked, tuple(rows), note=fixed)
    more = _relative(line, at, costs) if part == COUNT else []
    grid = Grid(tuple(f"{x:g}" for x in at), first.split, (line, *more), "")
    said = f"Averages over the tasks. {about}" + (_COSTS if more else "")
    return Sheet((Block(axis, "", grid),), title, said, headings=False, axis=axis, places="")


_COSTS = (
    " Time: the chosen models really classify the pictures of one task. Computation: floating-point operations of all "
    "models that are asked, on average over the tasks. Both in % of the first column."
)


def _relative(line: Line, at: Sequence[float], costs: Sequence[CostRow]) -> list[Line]:
    """What every k cost beside the first, as measured and as counted."""
    own = {float(cost.setting["k"]): cost for cost in costs if cost.part == COUNT and "k" in cost.setting}
    first = own.get(at[0])
    if first is None:
        return []
    found = []
    for entry, label, values in (
        ("time", "Time", {k: cost.evaluate_seconds for k, cost in own.items()}),
        ("computation", "Computation", {k: float(cost.setting.get("flops", 0)) for k, cost in own.items()}),
    ):
        if values[at[0]]:
            cells = tuple(_alone(values[x] / values[at[0]]) if x in values else None for x in at)
            note = "in % of the first column"
            found.append(Line(f"{line.entry}-{entry}", "curve", label, {}, "hub", cells, line.rows, note=note))
    return found


def _alone(value: float) -> Cell:
    """A number that has no interval."""
    return Cell(value, value, value, 0)
