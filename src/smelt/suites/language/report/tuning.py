"""What choosing the settings found: for every method its trials, how far they lie apart, and which won."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from smelt.evaluation.row import Row
from smelt.reporting.tables.sheet import Sheet
from smelt.reporting.words import setting_text
from smelt.suites.language.report.tables import DOMAINS, sheet_of

__all__ = ["Tuning", "tuning"]


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
