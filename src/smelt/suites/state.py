"""The state of a run: the rows and analyses that its folder has, and what failed so far."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import SmeltError
from smelt.evaluation.row import CostRow, Row
from smelt.files.reading import find_json_table
from smelt.files.writing import write_json
from smelt.suites.expected_row import ExpectedRow, known_fields

if TYPE_CHECKING:
    from smelt.runs.run_folder import RunFolder
    from smelt.suites.plan import Step

__all__ = ["RunState"]


class RunState:
    """Over an open folder."""

    def __init__(self, folder: RunFolder):
        self.folder = folder
        self.failures: dict[str, SmeltError] = {}
        """By the labels of the steps."""
        self._by_known_fields: dict[tuple[Any, ...], list[Row | CostRow]] = {}
        self._index(folder.rows)

    @property
    def path(self) -> Path:
        return self.folder.path

    @property
    def rows(self) -> list[Row]:
        """Of accuracy."""
        return [row for row in self.folder.rows if isinstance(row, Row)]

    @property
    def costs(self) -> list[CostRow]:
        return [row for row in self.folder.rows if isinstance(row, CostRow)]

    def fitting(self, expected: Iterable[ExpectedRow]) -> list[Row]:
        """The rows of accuracy that fit some of these."""
        found = {id(row): row for one in expected for row in self._fitting(one) if isinstance(row, Row)}
        return list(found.values())

    def missing(self, expected: Iterable[ExpectedRow]) -> list[ExpectedRow]:
        """Those that no row fits yet."""
        return [one for one in expected if not self._fitting(one)]

    def is_done(self, step: Step) -> bool:
        """Whether all that a step leaves is there."""
        if step.job is None:
            return True
        asked = all(self._asked(name) == asked for name, asked in step.analyses.items())
        return asked and not self.missing(step.expected) and step.stored()

    def add(self, contents: Iterable[Mapping[str, Any]]) -> None:
        """Rows that are not there: a step that is completed may tell of all its rows again."""
        rows = [(Row if one["kind"] == "accuracy" else CostRow).model_validate(one) for one in contents]
        new = [row for row in rows if not self.folder.has(row)]
        self.folder.add(new)
        self._index(new)

    def analysis(self, name: str) -> dict[str, Any] | None:
        """A table among the analyses; None where there is none that can be read."""
        return find_json_table(self.path / "analyses" / f"{name}.json")

    def write_analysis(self, name: str, content: Mapping[str, Any], indent: int | None = 1) -> None:
        """There whole or not at all."""
        write_json(self.path / "analyses" / f"{name}.json", content, indent=indent)

    def complain(self) -> None:
        """Raise the errors of failed steps; nothing where there is none. One alone stays as it is."""
        if len(self.failures) == 1:
            raise next(iter(self.failures.values()))
        if self.failures:
            lines = [f"{label}: {error}" for label, error in self.failures.items()]
            raise SmeltError(f"{len(lines)} steps failed; the others are done:" + "".join(f"\n  - {o}" for o in lines))

    def _asked(self, name: str) -> str:
        """What an analysis that is there was asked to show."""
        return str((self.analysis(name) or {}).get("asked"))

    def _fitting(self, expected: ExpectedRow) -> list[Row | CostRow]:
        return [row for row in self._by_known_fields.get(expected.known, ()) if expected.fits(row)]

    def _index(self, rows: Sequence[Row | CostRow]) -> None:
        for row in rows:
            self._by_known_fields.setdefault(known_fields(row), []).append(row)
