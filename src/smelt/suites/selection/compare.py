"""Every comparison that the report's sentences go by: two sides on the same questions, with a paired interval.

Accuracies are compared in shares, uncertainties in nats. Models that could not be made or asked are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.suites.selection.answers import StoredAnswers
from smelt.suites.selection.candidate import BASE, JOINT, Candidate, group
from smelt.suites.selection.growth import CHOICES, GrowthPath, left_out, random_groups, without_harm
from smelt.suites.selection.paired import paired
from smelt.suites.selection.steps import SelectionSteps
from smelt.suites.selection.suite import SelectionSuite

__all__ = ["Comparisons"]

_SETS = {"held_in": ["held_in"], "held_out": ["held_out"], "both": ["held_in", "held_out"]}
Pair = dict[str, Any]


class Comparisons:
    """Over what a run found; `traces` say which step each course chooses by either rule."""

    def __init__(
        self,
        suite: SelectionSuite,
        steps: SelectionSteps,
        answers: StoredAnswers,
        found: Sequence[GrowthPath],
        traces: Sequence[Mapping[str, Any]],
    ):
        self.suite, self.steps, self.answers = suite, steps, answers
        self.every, self.average = list(suite.pool.models), suite.average
        self.courses = [course.steps(suite.average, self.every) for course in found]
        self.traces = traces
        self.all = group(suite.average, self.every, self.every)

    def accuracies(
        self,
        chosen: Sequence[str],
        entries: Sequence[str],
        subsets: Sequence[Sequence[str]],
        single: Candidate,
        soup: Any,
    ) -> list[Pair]:
        """`single` is the best single model, `soup` the models of the greedy soup, where there is one."""
        drawn = [self._averaged(names) for names in subsets]
        own = self._picked(0, self.suite.choose)
        found = [*self._harm(), *self._courses(own), *self._choice(), *self._methods(chosen, entries)]
        found += self._references("reference", own, drawn, single, soup)
        for rule in CHOICES:
            other = self._picked(0, rule)
            if other != own:
                drawn = random_groups(self.suite).get(len(other.names), [])
                found += self._references(f"reference-{rule}", other, drawn, single, soup)
        return [one for one in found if one]

    def uncertainties(self) -> list[Pair]:
        """Of the chosen step: how far the next one is above it (`next`), and it above the lowest one (`lowest`)."""
        members, chosen = self.courses[0], self.traces[0]["chosen"]
        step, lowest = chosen[self.suite.choose], chosen["global_min"]
        found = []
        if step < len(members):
            found.append(self._rise("next", members[step], members[step - 1]))
        if step != lowest:
            found.append(self._rise("lowest", members[step - 1], members[lowest - 1]))
        return found

    def accuracy(self, member: Candidate, kind: str) -> float:
        """The mean over the sets of a kind."""
        return self.answers.accuracy(self.steps.identity(member), _SETS[kind])

    def _harm(self) -> list[Pair | None]:
        others = left_out(self.suite) if self.suite.harm else {}
        return [self._pair("harm", name, [member], [self.all], "both") for name, member in others.items()]

    def _courses(self, own: Candidate) -> list[Pair | None]:
        found: list[Pair | None] = []
        for number, trace in enumerate(self.traces[1:], 1):
            others = "perturbation" if trace["order"] == "descending" else "order"
            about = others if trace["perturbation"] not in (None, self.suite.guide) else "guidance"
            found += self._both(about, trace["name"], [own], [self._picked(number, self.suite.choose)])
        return found

    def _choice(self) -> list[Pair | None]:
        """The first local minimum against the lowest step, and that against the best one in hindsight."""
        first, low = (self._picked(0, rule) for rule in ("first_local_min", "global_min"))
        found = self._both("choice", "global_min", [first], [low])
        for kind in ("held_in", "held_out"):
            best = max(self.courses[0], key=lambda member: self.accuracy(member, kind))
            found.append(self._pair("lowest", best.who, [low], [best], kind))
        return found

    def _methods(self, chosen: Sequence[str], entries: Sequence[str]) -> list[Pair | None]:
        found = []
        for entry in entries:
            for where, names in (("chosen", chosen), ("all", self.every)):
                if entry != self.average and len(names) > 1:
                    other = group(entry, names, self.every)
                    found.append(self._pair(f"method-{where}", entry, [self._averaged(names)], [other], "both"))
        return found

    def _references(
        self, about: str, own: Candidate, drawn: list[Candidate], single: Candidate, soup: Sequence[str] | None
    ) -> list[Pair | None]:
        others = {"subsets": drawn, "all": [self.all], "best_single": [single], "base": [Candidate(BASE)]}
        if self.suite.joint:
            others["joint"] = [Candidate(JOINT)]
        if (good := without_harm(self.suite)) is not None:
            others["good"] = [good]
        if soup is not None:
            others["soup"] = [self._averaged(soup)]
        return [one for name, some in others.items() if some for one in self._both(about, name, [own], some)]

    def _averaged(self, names: Sequence[str]) -> Candidate:
        return group(self.average, names, self.every)

    def _picked(self, number: int, choose: str) -> Candidate:
        step: int = self.traces[number]["chosen"][choose]
        return self.courses[number][step - 1]

    def _both(self, about: str, name: str, ours: list[Candidate], theirs: list[Candidate]) -> list[Pair | None]:
        return [self._pair(about, name, ours, theirs, sets) for sets in ("held_in", "held_out")]

    def _pair(self, about: str, name: str, ours: list[Candidate], theirs: list[Candidate], sets: str) -> Pair | None:
        identities = [[self.steps.identity(member) for member in side] for side in (ours, theirs)]
        if not all(self.answers.has(one, _SETS[sets], []) for side in identities for one in side):
            return None
        ours_right, theirs_right = ([self.answers.right(one, _SETS[sets]) for one in side] for side in identities)
        return _told(about, name, ours, theirs, sets) | paired(
            ours_right, theirs_right, self.answers.pictures(_SETS[sets])
        )

    def _rise(self, about: str, upper: Candidate, lower: Candidate) -> Pair:
        values = [self.answers.uncertain(self.steps.identity(m), self.suite.guide) for m in (upper, lower)]
        pictures = self.answers.pictures(["held_in"])
        return _told(about, upper.who, [upper], [lower], "held_in") | paired([values[0]], [values[1]], pictures)


def _told(about: str, name: str, ours: Sequence[Candidate], theirs: Sequence[Candidate], sets: str) -> Pair:
    who = {"ours": [m.who for m in ours], "theirs": [m.who for m in theirs]}
    return {"about": about, "name": name, **who, "sets": sets}
