"""The trace of a selection: every step with what was measured there, written as it goes, so that it can be read early.

`trace.json` says all that the choice follows from. Nothing is read back from it: a run that goes on computes it again
from the stored answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smelt.display.blocks import Table
from smelt.display.shown import Shown
from smelt.files.writing import write_json
from smelt.select.scores import ModelScores
from smelt.version import __version__

__all__ = ["FILE", "SelectionStep", "Trace"]

FILE = "trace.json"


@dataclass(frozen=True)
class SelectionStep:
    """One merge that was tried."""

    models: tuple[str, ...]
    """Those that were merged, in their order."""
    added: str
    measured: ModelScores
    value: float
    """What the choice goes by: an uncertainty, or the share of wrong answers. Lower is better."""
    kept: bool | None = None
    """In a greedy soup: whether the model that was added stays."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        kept = {} if self.kept is None else {"kept": self.kept}
        return {"models": list(self.models), "added": self.added, **kept, **self.measured.to_json()}

    @property
    def cells(self) -> dict[str, str]:
        """What is known of it, under its headings."""
        about, cells = self.measured.to_json(), dict[str, str]()
        if "uncertainty" in about:
            low, high = about["interval"] or (None, None)
            cells["uncertainty"] = f"{about['uncertainty']:.5f}"
            cells["95 %"] = "" if low is None else f"{low:.5f} to {high:.5f}"
        if about["accuracy"] is not None:
            cells["accuracy %"] = f"{100 * about['accuracy']:.2f}"
        return cells

    def mark(self, chosen: bool) -> str:
        """Whether the model stays, and whether this is the choice."""
        kept = "" if self.kept is None else "stays" if self.kept else "goes"
        return f"{kept} ← chosen".strip() if chosen else kept


@dataclass
class Trace(Shown):
    """A selection from its first model to its choice."""

    words: Mapping[str, Any]
    """What was asked for."""
    notes: tuple[str, ...] = ()
    singles: dict[str, ModelScores] = field(default_factory=dict)
    order: tuple[str, ...] = ()
    steps: list[SelectionStep] = field(default_factory=list)
    chosen: int | None = None
    """The number of the chosen step, from 1; nothing while the run goes on."""

    @property
    def group(self) -> tuple[str, ...]:
        """The models that were chosen."""
        assert self.chosen is not None
        return self.steps[self.chosen - 1].models

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "smelt": __version__,
            "request": dict(self.words),
            "notes": list(self.notes),
            "singles": {name: one.to_json() for name, one in self.singles.items()},
            "order": list(self.order),
            "steps": [{"step": number, **step.to_json()} for number, step in enumerate(self.steps, 1)],
            "chosen": self.chosen,
            "models": list(self.group) if self.chosen is not None else None,
        }

    def shown(self) -> list[Table]:
        if not self.steps:
            return []
        steps = [(step, step.cells) for step in self.steps]
        headings = ["step", "with", *steps[0][1], ""]
        rows = [
            [str(number), step.added, *cells.values(), step.mark(number == self.chosen)]
            for number, (step, cells) in enumerate(steps, 1)
        ]
        return [Table(headings, rows, ", ".join(self.words["tasks"]), left=(1, len(headings) - 1))]

    def save(self, folder: Path) -> None:
        """Write it whole, in place of what was there."""
        write_json(folder / FILE, self.to_json())
