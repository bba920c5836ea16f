"""The best single specialist: what one model has without any merging. A reference, which takes no place among methods.

    Avg. Norm of a specialist = mean over ALL domains of its score / the score of the domain's own specialist

The one with the largest is chosen by the validation tasks, where all specialists were asked these; else by the tests,
which makes it an upper bound for any single one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from smelt.evaluation.row import Row
from smelt.suites.language.report.analyses import Language

__all__ = ["SingleSpecialist", "best_single"]

_VALIDATION = "val"


@dataclass(frozen=True)
class SingleSpecialist:
    """Which one it is, and what it was chosen on."""

    domain: str
    entry: str
    split: str

    @property
    def label(self) -> str:
        """`Best single specialist (maths)`."""
        return f"Best single specialist ({self.domain})"

    @property
    def short(self) -> str:
        """What heads its column."""
        return f"Best single ({self.domain})"

    @property
    def note(self) -> str:
        """How it was chosen."""
        if self.split == _VALIDATION:
            return "chosen on the validation tasks"
        return f"chosen on the {self.split} tasks: an upper bound for any single one"


def best_single(rows: Iterable[Row], language: Language, split: str) -> SingleSpecialist | None:
    """By the validation tasks, else by those of the table's split; None where not all answered everything."""
    scores = {(row.entry, row.split, row.task): row.accuracy for row in rows if row.variant == "reference"}
    validation: dict[str, Sequence[str]] = {
        name: (language.validation[name],) for name in language.domains if name in language.validation
    }
    by: list[tuple[str, Mapping[str, Sequence[str]]]] = [(_VALIDATION, validation), (split, language.domains)]
    for where, tasks in by:
        if tasks.keys() == language.domains.keys() and (shares := _shares(scores, language, tasks, where)):
            domain = max(shares, key=lambda name: shares[name])
            return SingleSpecialist(domain, language.experts[domain], where)
    return None


def _shares(
    scores: Mapping[tuple[str, str, str], float], language: Language, domains: Mapping[str, Sequence[str]], split: str
) -> dict[str, float]:
    """Avg. Norm of every specialist by its domain; nothing where one number is missing, or a divisor is 0."""
    entries = language.experts
    wanted = [(entry, split, task) for entry in entries.values() for tasks in domains.values() for task in tasks]
    if any(key not in scores for key in wanted):
        return {}

    def score(entry: str, domain: str) -> float:
        return sum(scores[entry, split, task] for task in domains[domain]) / len(domains[domain])

    own = {domain: score(entries[domain], domain) for domain in domains}
    if min(own.values()) <= 0:
        return {}
    return {
        name: sum(score(entry, domain) / own[domain] for domain in domains) / len(domains)
        for name, entry in entries.items()
    }
