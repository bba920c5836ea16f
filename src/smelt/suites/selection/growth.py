"""From what single models answered to the groups that are merged: the ways to grow one, and which step is chosen."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from smelt.select.step_choice import Choice, Guide, Order, chosen_step, ordered
from smelt.select.subsets import random_subsets
from smelt.suites.selection.candidate import Candidate, group
from smelt.suites.selection.suite import SelectionSuite

__all__ = [
    "CHOICES",
    "JUDGED",
    "GrowthPath",
    "Wanted",
    "growing",
    "growth_paths",
    "left_out",
    "random_groups",
    "subsets",
    "without_harm",
]

CHOICES: tuple[Choice, ...] = ("global_min", "first_local_min")
JUDGED = ("held_in", "held_out")
"""The sets that every merge is asked by."""
Wanted = dict[Candidate, tuple[tuple[str, ...], tuple[str, ...]]]
"""Models, each with the kinds of sets and the perturbations that it is asked by."""


@dataclass(frozen=True)
class GrowthPath:
    """One way to grow a group from one model to all."""

    guide: Guide
    order: Order
    perturbation: str | None
    """By which the uncertainty is measured, where that guides."""
    models: tuple[str, ...]
    """In the order in which they join."""

    @property
    def name(self) -> str:
        return "-".join(filter(None, [self.guide, self.order, self.perturbation]))

    def steps(self, entry: str, every: Sequence[str]) -> list[Candidate]:
        """The groups that it passes."""
        return [group(entry, self.models[:size], every) for size in range(1, len(self.models) + 1)]

    def chosen(self, values: Sequence[float]) -> dict[str, int]:
        """The chosen step, from 1, by either rule; `values` are the steps' uncertainties, or accuracies."""
        lower = values if self.guide == "uncertainty" else [1 - value for value in values]
        return {choice: chosen_step(lower, choice) for choice in CHOICES}


def growth_paths(
    suite: SelectionSuite, uncertainties: Mapping[str, Mapping[str, float]], right: Mapping[str, float]
) -> list[GrowthPath]:
    """The first is UQ-Merge's own; then the other guidances, then the other perturbations, in both orders if asked.

    `uncertainties` are those of single models under each perturbation, `right` their accuracies on held-in sets.
    """
    own = uncertainties[suite.guide]
    found: list[GrowthPath] = []
    orders: tuple[Order, Order] = ("descending", "ascending")
    for order in orders:
        found.append(GrowthPath("uncertainty", order, suite.guide, tuple(ordered(own, order))))
    for order in orders:
        found.append(GrowthPath("accuracy", order, None, tuple(ordered(right, order))))
    for name, values in uncertainties.items():
        if name != suite.guide:
            for order in orders if suite.both_orders else orders[:1]:
                found.append(GrowthPath("uncertainty", order, name, tuple(ordered(values, order))))
    return found


def left_out(suite: SelectionSuite) -> dict[str, Candidate]:
    """For every model, the average of all others."""
    every = list(suite.pool.models)
    return {name: group(suite.average, [one for one in every if one != name], every) for name in every}


def without_harm(suite: SelectionSuite) -> Candidate | None:
    """The average of all that were not made to harm; None where the suite does not know of any that were."""
    every = list(suite.pool.models)
    bad = suite.harmful.models if suite.harmful else []
    return group(suite.average, [name for name in every if name not in bad], every) if bad else None


def random_groups(suite: SelectionSuite) -> dict[int, list[Candidate]]:
    """Averages of random groups, by size; where there are fewer groups than wanted, all of them."""
    every = list(suite.pool.models)
    return {
        size: [group(suite.average, one, every) for one in _drawn(suite, size, suite.random.count)]
        for size in suite.random.sizes
    }


def growing(suite: SelectionSuite, found: Sequence[GrowthPath], kinds: Sequence[str]) -> Wanted:
    """The groups of all courses, of all models but one, of those that do no harm, and random ones; the first course is
    asked by all kinds.
    """
    every, wanted = list(suite.pool.models), dict[Candidate, tuple[tuple[str, ...], tuple[str, ...]]]()
    more = [*left_out(suite).values()] if suite.harm else []
    more += [good] if (good := without_harm(suite)) else []
    more += [member for members in random_groups(suite).values() for member in members]
    asked = [(m, kinds if one is found[0] else JUDGED, one) for one in found for m in one.steps(suite.average, every)]
    for member, sets, course in [*asked, *((member, JUDGED, None) for member in more)]:
        known, how = wanted.get(member, ((), ()))
        drawn = [course.perturbation] if course and course.perturbation else []
        wanted[member] = tuple(dict.fromkeys((*known, *sets))), tuple(dict.fromkeys((*how, *drawn)))
    return wanted


def subsets(suite: SelectionSuite, size: int) -> list[tuple[str, ...]]:
    """The random groups that every entry merges: of the chosen size, or of the suite's where that is one or all."""
    most = len(suite.pool.models)
    return list(_drawn(suite, size if 1 < size < most else min(suite.subset_size, most - 1), suite.subsets))


def _drawn(suite: SelectionSuite, size: int, count: int) -> Iterator[tuple[str, ...]]:
    every = list(suite.pool.models)
    yield from random_subsets(every, size, min(count, math.comb(len(every), size)), suite.seed)
