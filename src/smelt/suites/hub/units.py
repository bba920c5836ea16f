"""The units of a hub suite: pure pieces of work, plain data in; rows, and figures as data, out.

The first looks at one model by itself. All others choose among the models and are arithmetic on what the first kept.
"""

from __future__ import annotations

import functools
import shlex
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smelt.evaluation.row import CostRow, Row
from smelt.hub.labels.label import NodeText
from smelt.hub.selection.rankings import kendall, spearman
from smelt.suites.collaboration.score import scored
from smelt.suites.hub.growth import band, grow, orders
from smelt.suites.hub.rows import anybody_row, chosen_by, chosen_row, cost_row, used_in
from smelt.suites.hub.settings import setting_of
from smelt.suites.hub.suite import Method
from smelt.suites.hub.timing import timed
from smelt.suites.hub.work import WorkingHub, work_of
from smelt.system.threads import some_threads

__all__ = ["figures", "growth", "method", "prepare", "sweeps"]

Result = dict[str, Any]
"""`rows`, and `analyses` by the name of their files."""


def _with_threads(unit: Callable[..., Result]) -> Callable[..., Result]:
    """The unit, computed with as many cores as it is asked to."""

    @functools.wraps(unit)
    def run(**words: Any) -> Result:
        with some_threads(words["hub"]["threads"]):
            return unit(**words)

    return run


@_with_threads
def prepare(
    *, hub: Mapping[str, Any], model: str, read: Sequence[NodeText], text: bool, about: Mapping[str, Any]
) -> Result:
    """One model by itself: its label on the graph, its answers on every task, what it costs.

    `read`: what it reads of the nodes, a label for each. `text`: whether text features of the tasks are needed.
    """
    import torch

    work = work_of(hub)
    member = work.members[model]
    began = time.perf_counter()
    for words_of_node in read:
        member.index(work.graph, words_of_node)
    labelled = time.perf_counter() - began
    rows: list[Row | CostRow] = []
    for name, task in work.tasks.items():
        cosines = torch.from_numpy(member.cosines(task, work.graph, hub["limit"])).double()
        limit = ["--limit", str(hub["limit"])] if hub["limit"] else []
        words = {
            "command": shlex.join(["smelt", "eval", member.ref, "--tasks", name, *limit]),
            "model": member.ref,
            "model_hash": member.identity(work.graph).hash,
            "device": hub["device"],
            "seed": hub["seed"],
        }
        truth = torch.from_numpy(work.true_classes(name))
        rows.append(scored(hub["scale"] * cosines, truth, task=task, level=None, about={**about, **words}))
    if text:
        for name in work.tasks:
            work.of_texts(model, name)
    spent = time.perf_counter() - began - labelled
    rows.append(
        cost_row(
            hub,
            about,
            {**member.identity(work.graph)._asdict(), **member.cost()},
            evaluate_seconds=spent,
            prepare_seconds=labelled,
        )
    )
    return _plain(rows)


@_with_threads
def method(
    *,
    hub: Mapping[str, Any],
    words: Mapping[str, Any],
    counts: Mapping[str, int],
    alpha: float,
    about: Mapping[str, Any],
) -> Result:
    """One method on every task, once for every k; `counts` gives the k of each part."""
    work, way = work_of(hub), Method.model_validate(words)
    rows = []
    for part, k in counts.items():
        for task in work.tasks:
            said = {**about, "part": part, "setting": setting_of(way, k, alpha)}
            if way.by == "random":
                rows.append(anybody_row(work, task, k, way.weights, said))
            else:
                rows.append(chosen_row(work, way, task, k, alpha, said))
    return _plain(rows)


@_with_threads
def sweeps(
    *,
    hub: Mapping[str, Any],
    words: Mapping[str, Any],
    alphas: Mapping[str, Any],
    counts: Mapping[str, Any],
    timing: Mapping[str, Any] | None,
    flops: Mapping[str, int],
    about: Mapping[str, Any],
) -> Result:
    """One method over alpha and over k; `alphas` and `counts` are {part, values, k or alpha}, `flops` of each model."""
    work, way = work_of(hub), Method.model_validate(words)
    rows: list[Row | CostRow] = []
    settings = [(alphas["part"], alphas["k"], alpha) for alpha in alphas["values"]]
    settings += [(counts["part"], k, counts["alpha"]) for k in counts["values"]]
    for part, k, alpha in settings:
        for task in work.tasks:
            said = {**about, "part": part, "setting": setting_of(way, k, alpha)}
            rows.append(chosen_row(work, way, task, k, alpha, said))
    if timing is not None:
        rows += _costs(work, way, counts, timing, flops, about)
    return _plain(rows)


def _costs(
    work: WorkingHub,
    way: Method,
    counts: Mapping[str, Any],
    timing: Mapping[str, Any],
    flops: Mapping[str, int],
    about: Mapping[str, Any],
) -> list[CostRow]:
    """What every k costs: time as measured on one task, operations as counted on all."""
    every = {k: {task: chosen_by(work, way, task, k, counts["alpha"]) for task in work.tasks} for k in counts["values"]}
    spent = timed(work, way, timing, {k: chosen[timing["task"]] for k, chosen in every.items()})
    rows = []
    for k, chosen in every.items():
        operations = [sum(flops[name] for name in used_in(work, one)) for one in chosen.values()]
        asked = len(used_in(work, chosen[timing["task"]]))
        setting = {"k": k, "flops": round(sum(operations) / len(operations)), "models": asked, **timing}
        rows.append(cost_row(work.words, {**about, "part": counts["part"]}, setting, evaluate_seconds=spent[k]))
    return rows


@_with_threads
def growth(
    *,
    hub: Mapping[str, Any],
    methods: Mapping[str, Mapping[str, Any]],
    count: int,
    k: int,
    alpha: float,
    asked: str,
    about: Mapping[str, Any],
) -> Result:
    """The hub from one model to all, in `count` random orders."""
    import numpy as np

    work = work_of(hub)
    joining = orders(len(work.names), count, hub["seed"])
    ways = {name: Method.model_validate(words) for name, words in methods.items()}
    right = {name: np.zeros((*joining.shape, len(work.tasks)), dtype=np.int64) for name in ways}
    for place, task in enumerate(work.tasks):
        for name, way in ways.items():
            right[name][:, :, place] = grow(work.desk(task), work.opinion(way, task, alpha), joining, k, way.weights)
    pictures = np.array([len(work.true_classes(task)) for task in work.tasks])
    content = {
        "asked": asked,
        "k": k,
        "models": work.names,
        "tasks": dict(zip(work.tasks, pictures.tolist(), strict=True)),
        "orders": joining.tolist(),
        "methods": {name: {"label": way.label, **band(right[name], pictures)} for name, way in ways.items()},
        "right": {name: values.tolist() for name, values in right.items()},
        **{word: about[word] for word in ("suite", "command")},
    }
    return _plain([], {"hub-growth": content})


@_with_threads
def figures(
    *,
    hub: Mapping[str, Any],
    methods: Mapping[str, Mapping[str, Any]],
    spiders: Mapping[str, Any] | None,
    asked: str,
    about: Mapping[str, Any],
) -> Result:
    """How the order of the models by each method agrees with the true one, and models over the classes of one task."""
    work = work_of(hub)
    found: dict[str, Any] = {}
    for name, words in methods.items():
        way = Method.model_validate(words)
        told = {task: (work.overall(way, task), work.accuracy(task)) for task in work.tasks}
        found[name] = {
            "label": way.label,
            "spearman": {task: spearman(*pair) for task, pair in told.items()},
            "kendall": {task: kendall(*pair) for task, pair in told.items()},
            "predicted": {task: pair[0].tolist() for task, pair in told.items()},
        }
    analyses = {"hub-ranks": {"asked": asked, "models": work.names, "methods": found}}
    if spiders is not None:
        analyses["hub-classes"] = {"asked": asked, **_over_classes(work, **spiders)}
    return _plain([], analyses)


def _over_classes(work: WorkingHub, task: str, models: int, classes: int) -> dict[str, Any]:
    """The models that are best on most classes of a task, over those classes on which the models differ most."""
    import numpy as np

    shares = work.desk(task).by_class
    known = np.flatnonzero(~np.isnan(shares).any(axis=0))
    spread = shares[:, known].max(axis=0) - np.median(shares[:, known], axis=0)
    kept = np.sort(known[np.argsort(-spread, kind="stable")[:classes]])
    wins = (shares[:, kept] == shares[:, kept].max(axis=0)).sum(axis=1)
    best = np.lexsort((-shares[:, kept].mean(axis=1), -wins))[:models]
    names = work.tasks[task].classes
    return {
        "task": task,
        "classes": [names[number] for number in kept],
        "models": {work.names[number]: shares[number, kept].tolist() for number in best},
    }


def _plain(rows: Sequence[Row | CostRow], analyses: Mapping[str, Any] | None = None) -> Result:
    return {"rows": [row.model_dump(mode="json") for row in rows], "analyses": dict(analyses or {})}
