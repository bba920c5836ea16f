"""The printed tables whose order of methods stands beside a suite's own (`order: [NAME]` in its YAML).

    order:
      - fusionbench/ViT-B-32                                    # methods under our names, every task, by the average
      - {table: mll-k1, entries: {inb: graph-best}}             # its line `inb` beside our method `graph-best`
      - {table: neulig-s5-merged, part: "ViT, 7 experts", level: merged}

Models and tasks may be others; `published` tables are of the same ones and are compared number by number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import ValidationError, model_validator

from smelt.errors import RecipeError
from smelt.evaluation.row import Level
from smelt.files.schema import Strict, faults_of
from smelt.reporting.order import PublishedOrder
from smelt.reporting.published import PublishedLine, PublishedTable

if TYPE_CHECKING:
    from pathlib import Path

    from smelt.suites.kind import SuiteKind
    from smelt.suites.suite import BaseSuite

__all__ = ["ORDER", "OrderOf", "published_orders"]

ORDER = "order"


class OrderOf(Strict):
    """One table, and which of our numbers its lines stand beside; a name alone is a table whose words are ours."""

    table: str
    more: list[str] = []
    """Other tables about the same models and tasks, for lines that the first has not."""
    column: str | None = None
    """By which methods are put in order; the average if nothing is given."""
    entries: dict[str, str] = {}
    """By line, our entry where it has another name."""
    part: str | None = None
    """Of our suite; the table's own if nothing is given."""
    level: Level | None = None
    corruption: str | None = None
    seen: bool | None = None
    """Only tasks whose own experts were merged, or only others."""
    tasks: list[str] = []
    """Whose mean counts; every one that was measured if nothing is given."""
    share_of_experts: bool = False
    """Whether the mean over the suite's groups of tasks counts, each in share of its expert's."""
    references: bool = False
    """Whether models that are no merges have a place, too."""

    @model_validator(mode="before")
    @classmethod
    def _name_alone(cls, content: Any) -> Any:
        return {"table": content} if isinstance(content, str) else content

    def table_of(self, folder: Path) -> PublishedTable:
        """The printed table in our words."""
        from smelt.suites.published import read_table

        first = read_table(folder, self.table)
        lines, source = dict(first.lines), first.source
        for name in self.more:
            other = read_table(folder, name)
            source += f"; other lines: {other.source}"
            if (other.columns, other.average) != (first.columns, first.average):
                raise RecipeError(f"order: {name} has other columns than {self.table}; it cannot add lines to it")
            lines = {**other.lines, **lines}
        ours = {name: line for name, line in lines.items() if self._fits(line.level)}
        words = {"level": self.level, "corruption": self.corruption, "source": source}
        if self.part and not self.part.startswith("@"):  # else a group that is known when the suite has run
            words |= {"part": self.part, "title": f"{first.title}; here: {self.part}"}
        said = {word: value for word, value in words.items() if value is not None}
        return first.model_copy(update={"lines": {name: self._line(name, line) for name, line in ours.items()}, **said})

    def _fits(self, level: str | None) -> bool:
        """Lines of another level than the one that is asked for stay away."""
        return self.level is None or level in (None, self.level)

    def _line(self, name: str, line: PublishedLine) -> PublishedLine:
        entry = self.entries.get(name, line.entry)
        note = f"here {entry}" if name in self.entries and not str(entry).startswith("@") else ""
        part = self.part if self.part and self.part.startswith("@") else line.part
        return line.model_copy(update={"entry": entry, "note": note, "part": part})


def published_orders(suite: BaseSuite, kind: SuiteKind) -> dict[str, Any] | None:
    """What the report reads of them; None for a suite that names none."""
    from pathlib import Path

    from smelt.suites.published import PUBLISHED

    if not suite.order:
        return None
    folder = kind.folder / PUBLISHED if kind.folder else Path()
    return {"orders": [_order(one, suite, folder).model_dump(mode="json") for one in suite.order]}


def _order(one: OrderOf, suite: BaseSuite, folder: Path) -> PublishedOrder:
    groups = suite.column_means() if one.share_of_experts else {}
    words = one.model_dump(include={"column", "tasks", "seen", "references"})
    try:
        return PublishedOrder(table=one.table_of(folder), groups=groups, **words)
    except ValidationError as error:
        raise RecipeError(f"order: {one.table}: " + "; ".join(faults_of(error))) from None
