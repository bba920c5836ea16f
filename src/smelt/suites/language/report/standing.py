"""Where every method of a language suite stands: skill, forgetting, time and memory; its trials.

Algorithm time is measuring or learning and one merge; validation time is every merge and evaluation that choosing the
setting took.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from smelt.evaluation.row import CostRow, Row
from smelt.reporting.tables.cells import Cell
from smelt.reporting.tables.lines import TableLine
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import setting_text
from smelt.suites.language.report.analyses import Language
from smelt.suites.language.report.tables import DOMAINS, GENERAL, sheet_of

__all__ = [
    "ScoreDifference",
    "Standing",
    "Tuning",
    "difference",
    "ranked",
    "standings",
    "tuning",
]

StandingKind = Literal["base", "single", "multitask", "method"]


@dataclass(frozen=True)
class Standing:
    """One model. Shares are 1 where the experts, or the base model, are reached."""

    entry: str
    variant: str
    name: str
    """As above its column."""
    label: str
    """In full, as in its rows."""
    kind: StandingKind
    skill: Cell | None
    """Normalised multi-task performance."""
    generalisation: Cell | None
    """Normalised generalisation."""
    average: Cell | None
    """The mean over the domains as it is."""
    cost: CostRow | None
    note: str = ""
    """How it was chosen, where it is one of several."""

    @property
    def algorithm_seconds(self) -> float | None:
        return None if self.cost is None else self.cost.prepare_seconds + self.cost.merge_seconds

    @property
    def total_seconds(self) -> float | None:
        if self.cost is None or self.algorithm_seconds is None:
            return None
        return self.algorithm_seconds + self.cost.validate_seconds


@dataclass(frozen=True)
class ScoreDifference:
    """How far one normalised score is above another, with its 95 % interval."""

    value: float
    low: float
    high: float

    @property
    def sure(self) -> bool:
        """Whether the interval leaves out zero."""
        return self.low > 0 or self.high < 0


def standings(sheets: Sequence[Sheet], costs: Iterable[CostRow], language: Language) -> list[Standing]:
    """The base, every method, the best single specialist and the multi-task model, in the order of the tables."""
    domains, general = sheet_of(sheets, DOMAINS), sheet_of(sheets, GENERAL)
    shares = {(line.entry, line.variant): line.share for line in (general.lines if general else ())}
    paid: dict[tuple[str, str], CostRow] = {(row.entry, row.variant): row for row in costs}
    found = []
    for line in domains.lines if domains else ():
        kind = _kind(line, language)
        if kind is not None:
            who = (line.entry, line.variant)
            names = (line.short or line.name, line.label)
            one = Standing(*who, *names, kind, line.share, shares.get(who), line.average, paid.get(who), line.note)
            found.append(one)
    return found


def ranked(every: Iterable[Standing]) -> list[Standing]:
    """The methods whose normalised performance is known, the best first."""
    known = [(one.skill.accuracy, one) for one in every if one.kind == "method" and one.skill]
    return [one for _, one in sorted(known, key=lambda pair: -pair[0])]


def difference(one: Cell, other: Cell) -> ScoreDifference:
    """Normal approximation from the two intervals, as of independent samples.

    Both models answered the same examples and are divided by the same experts, so that the true interval is narrower.
    """
    apart = one.accuracy - other.accuracy
    below = math.hypot(one.accuracy - one.low, other.high - other.accuracy)
    above = math.hypot(one.high - one.accuracy, other.accuracy - other.low)
    return ScoreDifference(apart, apart - below, apart + above)


def _kind(line: TableLine, language: Language) -> StandingKind | None:
    if line.entry == language.base:
        return "base"
    if line.entry == language.multitask:
        return "multitask"
    if line.entry in language.experts.values():
        return "single"
    return "method" if line.merged else None


@dataclass(frozen=True)
class Tuning:
    """One method on the validation tasks: mean scores of its settings. What was not tried has none."""

    name: str
    setting: str
    data: str
    trials: int
    best: float | None = None
    middle: float | None = None
    worst: float | None = None


def tuning(rows: Sequence[Row], sheets: Sequence[Sheet]) -> list[Tuning]:
    """The methods in the order of the table."""
    sheet = sheet_of(sheets, DOMAINS)
    found = []
    for line in sheet.lines if sheet else ():
        if line.merged:
            scores = _scores([row for row in rows if row.variant == "curve" and row.entry == line.entry])
            spread = (max(scores), median(scores), min(scores)) if scores else (None, None, None)
            setting = setting_text(line.setting)
            found.append(Tuning(line.short or line.name, setting, line.data, len(scores), *spread))
    return found


def _scores(rows: Sequence[Row]) -> list[float]:
    """The mean over the tasks of every setting that was tried on all of them."""
    at: dict[str, dict[str, float]] = {}
    for row in rows:
        at.setdefault(json.dumps(row.setting, sort_keys=True, default=str), {})[row.task] = row.accuracy
    most = max((len(scores) for scores in at.values()), default=0)
    return [sum(scores.values()) / most for scores in at.values() if len(scores) == most]
