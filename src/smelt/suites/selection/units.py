"""The units of a selection suite: one model from its making to its rows, and the greedy soup. Plain data in and out.

What a model answered goes into the store, so that a unit that was stopped goes on at the set.
"""

from __future__ import annotations

import functools
import shlex
import time
from collections.abc import Mapping, Sequence
from typing import Any

from smelt.evaluation.provenance import row_of
from smelt.evaluation.row import Row
from smelt.recipe.schema import Recipe
from smelt.select.greedy_soup import greedy
from smelt.select.step_choice import ordered
from smelt.suites.selection.candidate import group
from smelt.suites.selection.process_cache import Session, session_of
from smelt.suites.selection.steps import SOUP
from smelt.suites.units import UnitResult, cost_row, unit_result, with_threads

__all__ = ["asked", "soup"]


@with_threads
def asked(
    *,
    model: Mapping[str, Any],
    identity: str,
    kinds: Sequence[str],
    perturbations: Sequence[str],
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
    first: Sequence[str],
) -> UnitResult:
    """Rows of a model on the sets of some kinds; what it answers under perturbations is left in the store.

    `model` is {ref}, or {recipe, names, prints}: a group of a recipe's models. `first` is the command that makes it.
    """
    session, spent = session_of(ask), _Spent()
    load = functools.cache(lambda: _loaded(session, model, spent))
    began = time.perf_counter()
    rows = [row for kind in kinds for row in _rows(session, kind, identity, load, ask, about, first)]
    for name in perturbations:
        session.perturbed[name].of(identity, lambda: load())
    seconds = time.perf_counter() - began - spent.seconds
    where: dict[str, Any] = {"threads": ask["threads"], "device": ask["device"]}
    numbers: dict[str, Any] = {"merge_seconds": spent.seconds, "evaluate_seconds": max(seconds, 0.0)}
    return unit_result([*rows, *(cost_row(row, **where, **numbers) for row in rows[:1])])


@with_threads
def soup(
    *, recipe: Mapping[str, Any], entry: str, prints: Mapping[str, str], ask: Mapping[str, Any], kind: str, asked: str
) -> UnitResult:
    """The greedy soup over the labelled sets of a kind: its steps, and the models that stay."""
    session, read = session_of(ask), Recipe.parse(recipe)
    groups, every, sets = session.groups(read, prints), list(read.pool.models), session.judged[kind]

    def accuracy(names: Sequence[str]) -> float:
        own = group(entry, names, every).names
        load = functools.cache(lambda: session.load(groups.at(own)))
        return sum(one.result(groups.identity(own), load).accuracy for one in sets) / len(sets)

    order = ordered({one: accuracy([one]) for one in every})
    found = list(greedy(order, accuracy))
    steps = [{"added": one.added, "accuracy": one.accuracy, "kept": one.kept} for one in found]
    content = {"steps": steps, "models": [one.added for one in found if one.kept], "asked": asked}
    return unit_result([], {SOUP: content})


class _Spent:
    """Seconds that merging took, apart from asking."""

    seconds = 0.0


def _loaded(session: Session, model: Mapping[str, Any], spent: _Spent) -> Any:
    if "ref" in model:
        return session.load(model["ref"])
    groups = session.groups(Recipe.parse(model["recipe"]), model["prints"])
    began = time.perf_counter()
    source = groups.at(model["names"])
    spent.seconds = time.perf_counter() - began
    return session.load(source)


def _rows(
    session: Session,
    kind: str,
    identity: str,
    load: Any,
    ask: Mapping[str, Any],
    about: Mapping[str, Any],
    first: Sequence[str],
) -> list[Row]:
    rows = []
    for one in session.judged[kind]:
        result = one.result(identity, load)
        asks = ["smelt", "eval", about["called"], "--tasks", ",".join(ask["kinds"][kind]["tasks"]), *_flags(ask, kind)]
        command = " && ".join(shlex.join(words) for words in (first, asks) if words)
        words = {word: value for word, value in about.items() if word != "called"}
        rows.append(row_of(result, load(), **{**words, "command": command}))
    return rows


def _flags(ask: Mapping[str, Any], kind: str) -> list[str]:
    said = {"--split": (ask["kinds"][kind]["split"], "test"), "--limit": (ask["limit"], None)}
    said |= {"--device": (ask["device"], "cpu"), "--dtype": (ask["dtype"], "float32")}
    flags = [word for flag, (value, usual) in said.items() if value != usual for word in (flag, str(value))]
    return [*flags, *(["--allow-pickle"] if ask["allow_pickle"] else [])]
