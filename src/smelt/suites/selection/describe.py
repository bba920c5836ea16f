"""What a selection suite found, as plain data for the report: orders, traces, choices, and paired comparisons.

Accuracies are not here: they are rows. A model is called by its rows' entry and part (`average@all`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.suites.selection.answers import StoredAnswers
from smelt.suites.selection.candidate import BASE, JOINT, Candidate, alone, group
from smelt.suites.selection.compare import Comparisons
from smelt.suites.selection.growth import GrowthPath, random_groups, subsets
from smelt.suites.selection.steps import SelectionSteps
from smelt.suites.selection.suite import SelectionSuite

__all__ = ["Description"]

_GROUP = "data-driven"
"""What a report's tables call merges whose models were chosen by looking at data."""


class Description:
    """Everything of `selection.json`. Models that could not be made or asked are left out."""

    def __init__(
        self,
        suite: SelectionSuite,
        steps: SelectionSteps,
        answers: StoredAnswers,
        found: Sequence[GrowthPath],
        chosen: Sequence[str],
        entries: Sequence[str],
        soup: Mapping[str, Any] | None,
    ):
        self.suite, self.steps, self.answers, self.found = suite, steps, answers, found
        self.every, self.entries, self.soup = list(suite.pool.models), entries, soup
        self.average, self.chosen = suite.average, group(suite.average, chosen, list(suite.pool.models))
        self.all = group(suite.average, self.every, self.every)
        self.subsets = subsets(suite, len(chosen))

    def content(self) -> dict[str, Any]:
        """As plain data."""
        suite = self.suite
        traces = [self._trace(course) for course in self.found]
        compare = Comparisons(suite, self.steps, self.answers, self.found, traces)
        single = max(map(alone, self.every), key=lambda member: compare.accuracy(member, "held_in"))
        soup = None if self.soup is None else self.soup["models"]
        names = {kind: [one.task.name for one in self.answers.sets(kind)] for kind in self.steps.kinds}
        return {
            "title": suite.title,
            "sets": names,
            "models": self.every,
            "base": BASE,
            "joint": JOINT if suite.joint else None,
            "harmful": suite.harmful.model_dump() if suite.harmful else None,
            "average": self.average,
            "entries": {name: suite.entries[name].model_dump(include=_ENTRY) for name in self.entries},
            "perturbations": {name: one.label for name, one in suite.perturbations.items()},
            "guide": suite.guide,
            "choose": suite.choose,
            "passes": suite.passes,
            "dropout": suite.dropout,
            "repeats": suite.repeats,
            "singles": self._singles(),
            "courses": traces,
            "chosen": {"who": self.chosen.who, "models": list(self.chosen.names)},
            "all": self.all.who,
            "best_single": single.who,
            "subsets": [list(one) for one in self.subsets],
            "on": {entry: self._on(entry) for entry in self.entries},
            "random": {str(size): [m.who for m in some] for size, some in random_groups(suite).items()},
            "soup": self._soup(),
            "budgets": self._budgets(),
            "compared": compare.accuracies(self.chosen.names, self.entries, self.subsets, single, soup),
            "uncertainty_compared": compare.uncertainties(),
        }

    def _singles(self) -> dict[str, dict[str, Any]]:
        """The uncertainty of every model as it is, by perturbation."""
        others = [Candidate(BASE), *([Candidate(JOINT)] if self.suite.joint else [])]
        found: dict[str, dict[str, Any]] = {}
        for how in self.suite.perturbations:
            members = [*map(alone, self.every), *(others if how == self.suite.guide else [])]
            found[how] = {m.who: self.answers.uncertainty(self.steps.identity(m), how) for m in members}
        return found

    def _trace(self, course: GrowthPath) -> dict[str, Any]:
        members = course.steps(self.average, self.every)
        steps: list[dict[str, Any]] = [
            {"who": member.who, "added": name} for member, name in zip(members, course.models, strict=True)
        ]
        if course.perturbation is None:
            values = [self.answers.accuracy(self.steps.identity(member), ["held_in"]) for member in members]
        else:
            about = [self.answers.uncertainty(self.steps.identity(m), course.perturbation) for m in members]
            steps = [{**step, "uncertainty": one} for step, one in zip(steps, about, strict=True)]
            values = [one["mean"] for one in about]
        words = {"name": course.name, "guide": course.guide, "order": course.order, "perturbation": course.perturbation}
        return {**words, "steps": steps, "values": values, "chosen": course.chosen(values)}

    def _budgets(self) -> dict[str, dict[str, Any]]:
        """What each way to choose looked at: by uncertainty, by accuracy (the best single model too), by the soup."""
        looked = {"uncertainty": ("held_in", False), "accuracy": ("held_in", True), "soup": ("validation", True)}
        found = {}
        for name, (kind, labelled) in looked.items():
            if kind in self.steps.kinds:
                n = sum(one.n for one in self.answers.sets(kind))
                about = {"group": _GROUP, "sets": kind, "split": self.suite.split(kind)}
                found[name] = {**about, "examples": n, "labels": n if labelled else 0}
        return found

    def _on(self, entry: str) -> dict[str, Any]:
        """The groups that an entry merged, by what they are for."""
        return {
            "chosen": group(entry, self.chosen.names, self.every).who,
            "subsets": [group(entry, names, self.every).who for names in self.subsets],
            "all": group(entry, self.every, self.every).who,
        }

    def _soup(self) -> dict[str, Any] | None:
        if self.soup is None:
            return None
        models = self.soup["models"]
        return {"who": group(self.average, models, self.every).who, "models": models, "steps": self.soup["steps"]}


_ENTRY = {"label", "setting", "paper", "note"}
