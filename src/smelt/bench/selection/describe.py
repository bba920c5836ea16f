"""What a selection suite found, as plain data for the report: orders, traces, choices, and paired comparisons.

Accuracies are not here: they are rows. A model is called by its rows' entry and part (`average@all`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.bench.selection.answers import Answers, paired
from smelt.bench.selection.member import BASE, JOINT, Member, alone, group
from smelt.bench.selection.plan import Course, left_out, random_groups, subsets
from smelt.bench.selection.steps import Steps
from smelt.bench.selection.suite import SelectionSuite

__all__ = ["describe"]

_SETS = {"held_in": ["held_in"], "held_out": ["held_out"], "both": ["held_in", "held_out"]}


def describe(
    suite: SelectionSuite,
    steps: Steps,
    answers: Answers,
    found: Sequence[Course],
    chosen: Sequence[str],
    entries: Sequence[str],
    soup: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Everything of `selection.json`. Models that could not be made or asked are left out."""
    return _Description(suite, steps, answers, found, chosen, entries, soup).content()


class _Description:
    def __init__(
        self,
        suite: SelectionSuite,
        steps: Steps,
        answers: Answers,
        found: Sequence[Course],
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
        suite = self.suite
        traces = [self._trace(course) for course in self.found]
        names = {kind: [one.task.name for one in self._sets(kind)] for kind in self.steps.kinds}
        return {
            "title": suite.title,
            "sets": names,
            "models": self.every,
            "base": BASE,
            "joint": JOINT if suite.joint else None,
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
            "best_single": self._best_single().who,
            "subsets": [list(one) for one in self.subsets],
            "on": {entry: self._on(entry) for entry in self.entries},
            "random": {str(size): [m.who for m in some] for size, some in random_groups(suite).items()},
            "soup": self._soup(),
            "compared": [one for one in self._compared(traces) if one],
        }

    def _sets(self, kind: str) -> Sequence[Any]:
        from smelt.bench.selection.desk import desk_of

        return desk_of(self.steps.ask).plain[kind].asking.sets

    def _singles(self) -> dict[str, dict[str, Any]]:
        """The uncertainty of every model as it is, by perturbation."""
        others = [Member(BASE), *([Member(JOINT)] if self.suite.joint else [])]
        found: dict[str, dict[str, Any]] = {}
        for how in self.suite.perturbations:
            members = [*map(alone, self.every), *(others if how == self.suite.guide else [])]
            found[how] = {m.who: self.answers.uncertainty(self.steps.identity(m), how) for m in members}
        return found

    def _trace(self, course: Course) -> dict[str, Any]:
        members = course.steps(self.average, self.every)
        steps: list[dict[str, Any]] = [
            {"who": member.who, "added": name} for member, name in zip(members, course.models, strict=True)
        ]
        if course.perturbation is None:
            values = [self._accuracy(member, "held_in") for member in members]
        else:
            about = [self.answers.uncertainty(self.steps.identity(m), course.perturbation) for m in members]
            steps = [{**step, "uncertainty": one} for step, one in zip(steps, about, strict=True)]
            values = [one["mean"] for one in about]
        words = {"name": course.name, "guide": course.guide, "order": course.order, "perturbation": course.perturbation}
        return {**words, "steps": steps, "values": values, "chosen": course.chosen(values)}

    def _accuracy(self, member: Member, kind: str) -> float:
        right = self.answers.right(self.steps.identity(member), _SETS[kind])
        return float(sum(one.mean() for one in right) / len(right))

    def _best_single(self) -> Member:
        return max(map(alone, self.every), key=lambda member: self._accuracy(member, "held_in"))

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

    def _compared(self, traces: Sequence[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        """Every comparison that the report's sentences go by."""
        found: list[dict[str, Any] | None] = []
        if self.suite.harm:
            found += [self._pair("harm", name, [m], [self.all], "both") for name, m in left_out(self.suite).items()]
        own = self._picked(0, traces, self.suite.choose)
        for number, trace in enumerate(traces[1:], 1):
            about = "perturbation" if trace["perturbation"] not in (None, self.suite.guide) else "guidance"
            found += self._both(about, trace["name"], [own], [self._picked(number, traces, self.suite.choose)])
        low = self._picked(0, traces, "global_min")
        found += self._both("choice", "global_min", [own], [low])
        for kind in ("held_in", "held_out"):
            members = self.found[0].steps(self.average, self.every)
            best = max(members, key=lambda member: self._accuracy(member, kind))
            found.append(self._pair("lowest", best.who, [low], [best], kind))
        for entry in self.entries:
            for where, names in (("chosen", self.chosen.names), ("all", tuple(self.every))):
                if entry != self.average and len(names) > 1:
                    other = group(entry, names, self.every)
                    found.append(
                        self._pair(f"method-{where}", entry, [group(self.average, names, self.every)], [other], "both")
                    )
        return [*found, *self._references(own)]

    def _references(self, own: Member) -> list[dict[str, Any] | None]:
        drawn = [group(self.average, names, self.every) for names in self.subsets]
        others = {"subsets": drawn, "all": [self.all], "best_single": [self._best_single()], "base": [Member(BASE)]}
        if self.suite.joint:
            others["joint"] = [Member(JOINT)]
        if self.soup is not None:
            others["soup"] = [group(self.average, self.soup["models"], self.every)]
        return [one for name, theirs in others.items() for one in self._both("reference", name, [own], theirs)]

    def _picked(self, number: int, traces: Sequence[Mapping[str, Any]], choose: str) -> Member:
        members = self.found[number].steps(self.average, self.every)
        step: int = traces[number]["chosen"][choose]
        return members[step - 1]

    def _both(self, about: str, name: str, ours: list[Member], theirs: list[Member]) -> list[dict[str, Any] | None]:
        return [self._pair(about, name, ours, theirs, sets) for sets in ("held_in", "held_out")]

    def _pair(
        self, about: str, name: str, ours: list[Member], theirs: list[Member], sets: str
    ) -> dict[str, Any] | None:
        identities = [[self.steps.identity(member) for member in side] for side in (ours, theirs)]
        if not all(self.answers.has(one, _SETS[sets], []) for side in identities for one in side):
            return None
        right = [[self.answers.right(one, _SETS[sets]) for one in side] for side in identities]
        who = {"ours": [m.who for m in ours], "theirs": [m.who for m in theirs]}
        return {"about": about, "name": name, **who, "sets": sets, **paired(*right)}


_ENTRY = {"label", "setting", "paper", "note"}
