"""The order of our methods beside a printed one, of other models and tests: how far the two agree, and how surely.

tau-b and rho over the methods that stand in both, the share of random orders that agree or disagree as strongly, and a
95 % interval of tau over the noise of our test examples: every score is redrawn, averaged as the table averages it, and
put in order again. A share of right answers is redrawn from its count (binomial), another score from its own interval
(normal). Measurements of one model are redrawn once, so that methods that made the same model stay level. The file of a
suite's folder is `analyses/order.json`; a suite's YAML names the tables (`smelt.suites.order`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError, model_validator

from smelt.errors import CorruptFile
from smelt.evaluation.row import Row
from smelt.files.schema import Strict, first_fault
from smelt.reporting.order_scores import MethodScore, redrawn_means
from smelt.reporting.published import PublishedLine, PublishedTable, cell_rows, comparable
from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.lines import EXPERT
from smelt.reporting.words import plural

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "ORDER_NOTE",
    "OrderAgreement",
    "OrderBeside",
    "OrderLine",
    "PublishedOrder",
    "agreement",
    "order_beside",
    "order_sentence",
    "read_orders",
]

_LEAST = 3
"""Methods that make an order."""
ORDER_NOTE = (
    "Places are among the methods that stand in both. Tau is 1 where the orders are the same, -1 where they are "
    "opposite. Its interval is over the noise of our test examples, not over tasks or models: every score is redrawn "
    "2,000 times, as if each model had answered examples of its own. They answered the same ones, which makes it a "
    "little wide. The printed numbers are taken as they stand."
)


class PublishedOrder(Strict):
    """A printed table in our words: its lines, part, level and corruption say which of our rows stand beside it."""

    table: PublishedTable
    column: str | None = None
    """By which methods are put in order; the average if nothing is given."""
    tasks: list[str] = []
    """Ours, whose mean counts; every one that was measured if nothing is given."""
    groups: dict[str, list[str]] = {}
    """In their place, groups of tasks: each group's mean, divided by that of the expert of its name, counts once."""
    seen: bool | None = None
    """Only tasks whose own experts were merged, or only others."""
    references: bool = False
    """Whether models that are no merges have a place, too."""

    @model_validator(mode="after")
    def _has_its_column(self) -> PublishedOrder:
        if self.column is None and not self.table.average:
            raise ValueError("column: the table has no average; name a column")
        if self.column is not None and self.column not in self.table.columns:
            raise ValueError(f"column: the table has no {self.column!r}; it has {', '.join(self.table.columns)}")
        return self

    def printed(self, line: PublishedLine) -> float | None:
        """The number of a line, in percent where the table has shares."""
        value = line.values[-1 if self.column is None else self.table.columns.index(self.column)]
        return round(100 * value, 6) if value is not None and self.table.unit == "share" else value


@dataclass(frozen=True)
class OrderLine:
    """One method: its place and mean here, its place and number there (1 is the best)."""

    label: str
    place: int
    mean: Cell
    printed_place: int
    printed: float

    @property
    def printed_text(self) -> str:
        """As printed, with a decimal at least: `66.5`, `95.43`."""
        return f"{self.printed:.1f}" if self.printed == round(self.printed, 1) else f"{self.printed:g}"


@dataclass(frozen=True)
class OrderAgreement:
    """1: the same order, 0: none, -1: the opposite."""

    methods: int
    kendall: float
    low: float
    high: float
    """The 95 % interval of tau, this and `low`."""
    spearman: float
    chance: float
    """The share of random orders whose tau is at least as far from 0."""

    @property
    def chance_text(self) -> str:
        """`12`, `under 1`."""
        return f"{100 * self.chance:.0f}" if self.chance >= 0.01 else "under 1"


@dataclass(frozen=True)
class OrderBeside:
    """One printed order with ours; without an agreement where there are fewer than three methods or all are level."""

    order: PublishedOrder
    lines: tuple[OrderLine, ...]
    """The best here first."""
    agreement: OrderAgreement | None

    @property
    def title(self) -> str:
        """`Table 6: methods on the same models, column "Chosen 7"`."""
        table, column = self.order.table, self.order.column
        heads = dict(zip(table.columns, table.heads or table.columns, strict=True))
        said = f"{table.table}: {table.title}" if table.title else table.table
        return said if column is None else f'{said}, column "{heads[column]}"'

    @property
    def measure(self) -> str:
        """What our means are in percent of, in a few words."""
        return "mean here, % of the experts" if self.order.groups else "mean here, %"


def read_orders(path: Path) -> tuple[PublishedOrder, ...]:
    """The orders of a folder; none where there is no file."""
    from smelt.reporting.analyses import read_figure

    content = read_figure(path)
    try:
        return tuple(PublishedOrder.model_validate(one) for one in (content or {}).get("orders", ()))
    except (ValidationError, TypeError) as error:
        fault = first_fault(error) if isinstance(error, ValidationError) else str(error)
        raise CorruptFile(f"{path}: {fault}; run the suite again") from None


def order_beside(order: PublishedOrder, rows: Iterable[Row]) -> OrderBeside:
    """What our rows say of a printed order."""
    scores = _scores(order, [row for row in comparable(order.table, rows) if order.seen in (None, row.seen)])
    ours, theirs = [one.mean.accuracy for one in scores], [one.printed for one in scores]
    lines = [
        OrderLine(one.label, _place(one.mean.accuracy, ours), one.mean, _place(one.printed, theirs), one.printed)
        for one in scores
    ]
    lines.sort(key=lambda line: (line.place, line.printed_place))
    return OrderBeside(order, tuple(lines), agreement(scores))


def agreement(scores: Sequence[MethodScore]) -> OrderAgreement | None:
    """None for fewer than three methods, and where one side has no order."""
    import numpy as np

    from smelt.ops.rank_correlation import chance, kendall, kendall_each, spearman

    if len(scores) < _LEAST:
        return None
    ours: NDArray[np.float64] = np.array([one.mean.accuracy for one in scores])
    theirs: NDArray[np.float64] = np.array([one.printed for one in scores])
    tau, rho = kendall(ours, theirs), spearman(ours, theirs)
    if tau is None or rho is None:
        return None
    low, high = np.percentile(kendall_each(redrawn_means(scores), theirs), [2.5, 97.5])
    return OrderAgreement(len(scores), tau, float(low), float(high), rho, chance(ours, theirs, tau))


def order_sentence(one: OrderBeside) -> str:
    """How far the two agree; or why that cannot be said."""
    found, count = one.agreement, len(one.lines)
    if found is None and count >= _LEAST:
        return "All numbers of one side are equal, so that there is no order."
    if found is None:
        what = f"Only {plural(count, 'method')} of it {'was' if count == 1 else 'were'}" if count else "None of it was"
        return f"{what} measured here, and an order needs three: no agreement can be told."
    return (
        f"Kendall's tau {found.kendall:.2f} (95 % interval {found.low:.2f} to {found.high:.2f}), Spearman's rho "
        f"{found.spearman:.2f}, over {found.methods} methods. Of random orders {found.chance_text} % agree or disagree "
        "as strongly."
    )


def _scores(order: PublishedOrder, rows: Sequence[Row]) -> list[MethodScore]:
    """The methods that were measured on all tasks; of several lines about one model the first."""
    table, tasks = order.table, list(dict.fromkeys(row.task for row in rows))
    known: dict[tuple[str, str | None, str | None], tuple[str, float, dict[str, list[Row]]]] = {}
    for name, line in table.lines.items():
        entry, level, printed = line.entry or name, line.level or table.level, order.printed(line)
        cells = {task: found for task in tasks if (found := cell_rows(rows, entry, line, table, task, level))}
        reference = any(row.variant == "reference" for found in cells.values() for row in found)
        if printed is not None and cells and (order.references or not reference):
            label = f"{line.label} ({line.note})" if line.note else line.label
            known.setdefault((entry, line.part, level), (label, printed, cells))
    measured = dict.fromkeys(task for _, _, cells in known.values() for task in tasks if task in cells)
    weights = _weights(order, list(measured), rows)
    return [
        MethodScore.of(label, printed, [(cells[task], weight) for task, weight in weights.items()])
        for label, printed, cells in known.values()
        if weights and cells.keys() >= weights.keys()
    ]


def _weights(order: PublishedOrder, measured: Sequence[str], rows: Sequence[Row]) -> Mapping[str, float]:
    """What each task counts; nothing where an expert that a group is divided by was not measured."""
    if not order.groups:
        tasks = order.tasks or list(measured)
        return dict.fromkeys(tasks, 1 / len(tasks)) if tasks else {}
    found: dict[str, float] = {}
    for name, tasks in order.groups.items():
        own = {row.task: row.accuracy for row in rows if row.entry == f"{EXPERT}{name}" and row.task in tasks}
        expert = sum(own.values()) / len(tasks)
        if len(own) < len(tasks) or expert <= 0:
            return {}
        found |= dict.fromkeys(tasks, 1 / (len(order.groups) * len(tasks) * expert))
    return found


def _place(value: float, every: Sequence[float]) -> int:
    return 1 + sum(other > value for other in every)
