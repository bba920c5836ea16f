"""Selecting models of a hub as tables: the methods over the tasks for every k, and one method over alpha and over k.

    Of oracle = average accuracy / average of the models that are best on the very test pictures

The oracle and a model that nobody chose are references and take no place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from smelt.evaluation.row import CostRow, Row
from smelt.reporting.tables.as_csv import point_records
from smelt.reporting.tables.cells import cell_alone, mean_cell
from smelt.reporting.tables.grid import Grid, tasks_of
from smelt.reporting.tables.lines import GROUPS, LineReader, TableLine, last_cell
from smelt.reporting.tables.ranks import rank_cells, share_of, with_ranks
from smelt.reporting.tables.sheet import ColumnBlock, Sheet
from smelt.reporting.words import plural, setting_text
from smelt.suites.hub.row_parts import ALPHA, COUNT, is_hub, models_per_class, table_parts

__all__ = ["HUB", "OF_ORACLE", "ORACLE", "HubReader", "hub_sheets", "is_hub_sheet"]

HUB = "hub"
"""The group of every way to choose models."""
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


class HubReader(LineReader):
    """Ways to choose models, beside references."""

    groups: Mapping[str, str] = {
        "reference": GROUPS["reference"],
        HUB: "Selection and reuse",
        "single": GROUPS["single"],
    }

    def group(self, row: Row) -> str:
        """A reference, or a way to choose."""
        return str(row.variant) if row.variant in ("single", "reference") else HUB


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
    lines = share_of(HubReader().lines(rows, tasks, split), ORACLE)
    ranked = tuple(with_ranks(lines, lambda line: line.group == HUB))
    whole = "the oracle's average"
    grid = Grid(tasks, split, ranked, "Avg.", OF_ORACLE, headings=HubReader.groups, share_of=whole)
    about = _ABOUT.format(best="best model" if k == 1 else f"{k} best models by themselves, together no bound,")
    return Sheet((ColumnBlock("", "", grid),), title, about, part=part, rivals="method", places=_PLACES)


def _sweep(part: str, rows: Sequence[Row], costs: Sequence[CostRow]) -> Sheet | None:
    """One method along an axis, a line for every rule of weights; over k what each k took, in % of the first."""
    axis, title, about = _SWEEPS[part]
    at = sorted({float(row.setting[axis]) for row in rows})
    if len(at) < 2:
        return None
    lines = _by_weights(rows, axis, at)
    more = _relative(lines[0], at, costs) if part == COUNT else []
    grid = Grid(tuple(f"{x:g}" for x in at), rows[0].split, (*lines, *more), "")
    if len(lines) > 1:
        about += " Lines: how the answers of a class's models are joined."
    said = f"Averages over the tasks. {about}" + (_COSTS if more else "")
    return Sheet(
        (ColumnBlock(axis, "", grid),),
        title,
        said,
        headings=False,
        axis=axis,
        places="",
        extra="level",
        records=point_records,
    )


def _by_weights(rows: Sequence[Row], axis: str, at: Sequence[float]) -> list[TableLine]:
    """For every rule by which answers are joined the averages over the tasks; a setting without one has the paper's."""
    tasks = tasks_of(rows)
    by_rule: dict[str, list[Row]] = {}
    for row in rows:
        by_rule.setdefault(row.setting.get("weights", _PAPERS_RULE), []).append(row)
    lines: list[TableLine] = []
    for rule, own in by_rule.items():
        first, cells = own[0], []
        for x in at:
            here = [row for row in own if float(row.setting[axis]) == x]
            cells.append(mean_cell([last_cell([row for row in here if row.task == task]) for task in tasks]))
        fixed = {word: value for word, value in first.setting.items() if word != axis}
        note = setting_text({**fixed, "weights": rule} if len(by_rule) > 1 else fixed)
        entry = f"{first.entry}-{rule}" if lines else first.entry
        lines.append(TableLine(entry, "curve", first.label, {}, HUB, rank_cells(cells), tuple(own), note=note))
    return lines


_PAPERS_RULE = "entropy"
_COSTS = (
    " Time: the chosen models really classify the pictures of one task. Computation: floating-point operations of all "
    "models that are asked, on average over the tasks. Both in % of the first column."
)


def _relative(line: TableLine, at: Sequence[float], costs: Sequence[CostRow]) -> list[TableLine]:
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
            cells = tuple(cell_alone(values[x] / values[at[0]]) if x in values else None for x in at)
            note = "in % of the first column"
            found.append(TableLine(f"{line.entry}-{entry}", "curve", label, {}, HUB, cells, line.rows, note=note))
    return found
