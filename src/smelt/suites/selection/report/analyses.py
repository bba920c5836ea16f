"""What a selection suite left beside its rows: orders, traces, choices and paired comparisons (`selection.json`).

A model is called by its rows: the entry alone (`expert-digits`), or with its group (`average@all`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile
from smelt.reporting.analyses import read_figure
from smelt.reporting.published import PublishedTable, read_published
from smelt.reporting.words import plural
from smelt.suites.selection.paper import UNCERTAIN

__all__ = [
    "Compared",
    "KnownHarm",
    "SelectionAnalysis",
    "SelectionBudget",
    "SelectionTrace",
    "Uncertain",
    "read_selection",
]

KINDS = {"held_in": "Held-in", "held_out": "Held-out", "validation": "Validation"}


@dataclass(frozen=True)
class Uncertain:
    """An uncertainty in nats with its 95 % interval: the mean over the held-in sets, and of every set."""

    mean: float
    low: float
    high: float
    sets: dict[str, float]
    repeats: tuple[dict[str, float], ...] = ()
    """The same of every set, in each of the repeats."""

    @property
    def text(self) -> str:
        """`0.0395 (0.0371–0.0420)`."""
        return f"{self.mean:.4f} ({self.low:.4f}–{self.high:.4f})"


@dataclass(frozen=True)
class SelectionTrace:
    """One way to grow a group, step by step, and the steps that it chooses, from 1."""

    name: str
    guide: str
    order: str
    perturbation: str | None
    who: tuple[str, ...]
    added: tuple[str, ...]
    values: tuple[float, ...]
    uncertainty: tuple[Uncertain, ...]
    """Of every step, where that guides."""
    chosen: dict[str, int]


@dataclass(frozen=True)
class SelectionBudget:
    """What a way to choose models looked at; `group` is that of its lines in tables."""

    group: str
    sets: str
    split: str
    examples: int
    labels: int

    @property
    def text(self) -> str:
        """`chosen by 2,000 unlabelled test questions of the held-in sets`."""
        kind = "labelled" if self.labels else "unlabelled"
        return (
            f"chosen by {plural(self.examples, f'{kind} {self.split} question')} of the {KINDS[self.sets].lower()} sets"
        )


@dataclass(frozen=True)
class Compared:
    """How far the mean of some models is above that of others on the same questions, with its interval.

    Accuracies as shares, or uncertainties in nats.
    """

    about: str
    name: str
    ours: tuple[str, ...]
    theirs: tuple[str, ...]
    sets: str
    difference: float
    error: float
    low: float
    high: float

    @property
    def same(self) -> bool:
        """Whether both sides are the very same models."""
        return self.ours == self.theirs

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class KnownHarm:
    """The experts that were made to harm, and how they do."""

    kind: str
    models: tuple[str, ...]


@dataclass(frozen=True)
class SelectionAnalysis:
    """All of the file."""

    title: str
    sets: dict[str, tuple[str, ...]]
    models: tuple[str, ...]
    base: str
    joint: str | None
    average: str
    entries: dict[str, dict[str, Any]]
    perturbations: dict[str, str]
    guide: str
    choose: str
    singles: dict[str, dict[str, Uncertain]]
    traces: tuple[SelectionTrace, ...]
    chosen: str
    chosen_models: tuple[str, ...]
    all: str
    best_single: str
    subsets: tuple[tuple[str, ...], ...]
    on: dict[str, dict[str, Any]]
    random: dict[int, tuple[str, ...]]
    soup: dict[str, Any] | None
    budgets: dict[str, SelectionBudget]
    """By what guides a choice: `uncertainty`, `accuracy`, `soup`."""
    compared: tuple[Compared, ...]
    """Of accuracies."""
    uncertainty_compared: tuple[Compared, ...]
    """Of UQ-Merge's own steps: the next one above the chosen one, the chosen one above the lowest."""
    harmful: KnownHarm | None = None
    printed: tuple[PublishedTable, ...] = ()
    """Printed tables of uncertainties."""

    @property
    def own(self) -> SelectionTrace:
        """UQ-Merge's own trace."""
        return self.traces[0]

    @property
    def judged(self) -> tuple[str, ...]:
        """Held-in and held-out sets."""
        return (*self.sets["held_in"], *self.sets["held_out"])

    def comparisons(self, about: str, sets: str | None = None) -> list[Compared]:
        """Those of one kind, in order."""
        return [one for one in self.compared if one.about == about and sets in (None, one.sets)]


def read_selection(folder: Path) -> SelectionAnalysis | None:
    """Read `selection.json` of a folder of analyses; None where there is none."""
    path = folder / "selection.json"
    content = read_figure(path, "let the suite run again")
    if content is None:
        return None
    try:
        return replace(_selection(content), printed=read_published(folder / f"{UNCERTAIN}.json"))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CorruptFile(f"{path}: not what a selection suite writes ({error!r}); let the suite run again") from None


def _selection(content: Mapping[str, Any]) -> SelectionAnalysis:
    same = ("title", "base", "joint", "average", "entries", "perturbations", "guide", "choose", "all", "best_single")
    return SelectionAnalysis(
        **{word: content[word] for word in same},
        sets={kind: tuple(names) for kind, names in content["sets"].items()},
        models=tuple(content["models"]),
        singles={how: {who: _uncertain(u) for who, u in some.items()} for how, some in content["singles"].items()},
        traces=tuple(map(_trace, content["courses"])),
        chosen=content["chosen"]["who"],
        chosen_models=tuple(content["chosen"]["models"]),
        subsets=tuple(tuple(one) for one in content["subsets"]),
        on=content["on"],
        random={int(size): tuple(some) for size, some in content["random"].items()},
        soup=content["soup"],
        budgets={name: SelectionBudget(**one) for name, one in content["budgets"].items()},
        compared=tuple(map(_compared, content["compared"])),
        uncertainty_compared=tuple(map(_compared, content["uncertainty_compared"])),
        harmful=KnownHarm(bad["kind"], tuple(bad["models"])) if (bad := content.get("harmful")) else None,
    )


def _compared(content: Mapping[str, Any]) -> Compared:
    return Compared(**{**content, "ours": tuple(content["ours"]), "theirs": tuple(content["theirs"])})


def _trace(content: Mapping[str, Any]) -> SelectionTrace:
    steps = content["steps"]
    return SelectionTrace(
        content["name"],
        content["guide"],
        content["order"],
        content["perturbation"],
        tuple(step["who"] for step in steps),
        tuple(step["added"] for step in steps),
        tuple(map(float, content["values"])),
        tuple(_uncertain(step["uncertainty"]) for step in steps if "uncertainty" in step),
        dict(content["chosen"]),
    )


def _uncertain(content: Mapping[str, Any]) -> Uncertain:
    sets = {name: float(one["mean"]) for name, one in content["sets"].items()}
    repeats = tuple({name: float(one) for name, one in some.items()} for some in content.get("repeats", ()))
    return Uncertain(float(content["mean"]), float(content["low"]), float(content["high"]), sets, repeats)
