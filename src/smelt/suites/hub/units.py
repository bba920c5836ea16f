"""The units of a hub suite: pure pieces of work, plain data in; rows, and figures as data, out.

The first looks at one model by itself. All others choose among the models and are arithmetic on what the first kept.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from smelt.ensembles.per_class import PerClass
from smelt.evaluation.provenance import row_of_logits
from smelt.evaluation.row import CostRow, Row
from smelt.ops.rank_correlation import kendall, spearman
from smelt.suites.hub.growth import band, grow, orders
from smelt.suites.hub.method_scores import WorkingHub, work_of
from smelt.suites.hub.rows import anybody_row, chosen_by, chosen_row, used_in
from smelt.suites.hub.suite import Method
from smelt.suites.hub.task_scores import Chosen
from smelt.suites.units import UnitResult, cost_row, shared_data, unit_result, with_threads

__all__ = ["figures", "growth", "method", "prepare", "sweeps"]


@with_threads
def prepare(
    *,
    ask: Mapping[str, Any],
    model: str,
    needs: Mapping[str, Any],
    reader_needs: Mapping[str, Any] | None,
    about: Mapping[str, Any],
) -> UnitResult:
    """One model by itself: its label on the graph, its answers on every task, what it costs.

    `needs` are {read, text}: what it reads of the nodes, a label for each, and whether text features of the tasks are
    needed. `reader_needs` are those of the model that reads with its reader, None where nothing is: they are computed
    and kept, and the identity of that model stands under `with_reader` among the costs.
    """
    work = work_of(ask)
    member = work.members[model]
    labelled, spent = _compute(work, model, needs)
    with_reader: dict[str, Any] = {}
    if reader_needs is not None:
        reading = work.of(Method(label="", reader=True))
        taken = _compute(reading, model, reader_needs)
        labelled, spent = labelled + taken[0], spent + taken[1]
        reader = reading.members[model]
        with_reader = {"read_by": reader.reader, "with_reader": reader.identity(work.graph)._asdict()}
        reader.release()
    rows: list[Row | CostRow] = []
    for name, task in work.tasks.items():
        cosines = torch.from_numpy(member.cosines(task, work.graph, ask["limit"])).double()
        limit = ["--limit", str(ask["limit"])] if ask["limit"] else []
        words = {
            "command": shlex.join(["smelt", "eval", member.ref, "--tasks", name, *limit]),
            "model": member.ref,
            "model_hash": member.identity(work.graph).hash,
            "device": ask["device"],
            "seed": ask["seed"],
        }
        truth = torch.from_numpy(work.true_classes(name))
        rows.append(row_of_logits(ask["scale"] * cosines, truth, task=task, level=None, about={**about, **words}))
    costs = member.cost()
    member.release()
    rows.append(
        cost_row(
            {**about, "setting": {**member.identity(work.graph)._asdict(), **costs, **with_reader}},
            device=ask["device"],
            evaluate_seconds=spent,
            prepare_seconds=labelled,
        )
    )
    return unit_result(rows)


def _compute(work: WorkingHub, model: str, needs: Mapping[str, Any]) -> tuple[float, float]:
    """All that later steps read of a model; gives the seconds that labels took, and those of everything else."""
    member, began = work.members[model], time.perf_counter()
    for words_of_node in needs["read"]:
        member.index(work.graph, words_of_node)
    labelled = time.perf_counter() - began
    for name, task in work.tasks.items():
        member.cosines(task, work.graph, work.words["limit"])
        if needs["text"]:
            work.of_texts(model, name)
    return labelled, time.perf_counter() - began - labelled


@with_threads
def method(
    *,
    ask: Mapping[str, Any],
    words: Mapping[str, Any],
    counts: Mapping[str, int],
    alpha: float,
    about: Mapping[str, Any],
) -> UnitResult:
    """One method on every task, once for every k; `counts` gives the k of each part."""
    work, method = work_of(ask), Method.model_validate(words)
    rows = []
    for part, k in counts.items():
        for task in work.tasks:
            said = {**about, "part": part, "setting": method.setting(k, alpha)}
            if method.by == "random":
                rows.append(anybody_row(work, method, task, k, said))
            else:
                rows.append(chosen_row(work, method, task, k, alpha, said))
    return unit_result(rows)


@with_threads
def sweeps(
    *,
    ask: Mapping[str, Any],
    words: Mapping[str, Any],
    alphas: Mapping[str, Any],
    counts: Mapping[str, Any],
    timing: Mapping[str, Any] | None,
    flops: Mapping[str, int],
    about: Mapping[str, Any],
) -> UnitResult:
    """One method over alpha, and over k with every rule of weights; `flops` are those of each model.

    `alphas` are {part, values, k}, `counts` {part, values, alpha, weights}. Time is that of the method's own rule.
    """
    work, method = work_of(ask), Method.model_validate(words)
    rows: list[Row | CostRow] = []
    settings = [(alphas["part"], method, alphas["k"], alpha) for alpha in alphas["values"]]
    for rule in counts["weights"]:
        other = method.model_copy(update={"weights": rule})
        settings += [(counts["part"], other, k, counts["alpha"]) for k in counts["values"]]
    for part, one, k, alpha in settings:
        for task in work.tasks:
            said = {**about, "part": part, "setting": one.setting(k, alpha)}
            rows.append(chosen_row(work, one, task, k, alpha, said))
    if timing is not None:
        rows += _costs(work, method, counts, timing, flops, about)
    return unit_result(rows)


def _costs(
    work: WorkingHub,
    method: Method,
    counts: Mapping[str, Any],
    timing: Mapping[str, Any],
    flops: Mapping[str, int],
    about: Mapping[str, Any],
) -> list[CostRow]:
    """What every k costs: time as measured on one task, operations as counted on all."""
    every = {
        k: {task: chosen_by(work, method, task, k, counts["alpha"]) for task in work.tasks} for k in counts["values"]
    }
    spent = _timed(work, method, timing, {k: chosen[timing["task"]] for k, chosen in every.items()})
    rows = []
    for k, chosen in every.items():
        operations = [sum(flops[name] for name in used_in(work, one)) for one in chosen.values()]
        asked = len(used_in(work, chosen[timing["task"]]))
        setting = {"k": k, "flops": round(sum(operations) / len(operations)), "models": asked, **timing}
        words = {**about, "part": counts["part"], "setting": setting}
        rows.append(cost_row(words, device=work.words["device"], evaluate_seconds=spent[k]))
    return rows


def _timed(
    work: WorkingHub, method: Method, timing: Mapping[str, Any], every: Mapping[int, Chosen]
) -> dict[int, float]:
    """For every k the seconds that its models take for some pictures of a task: the least of a few rounds.

    All k have their turn in every round, so that a machine that slows down does so for all of them.
    """
    task = work.tasks[timing["task"]]
    split = shared_data().split(task, "test")
    pictures = list(split.read(np.arange(min(timing["pictures"], len(split.labels)))))
    together = {}
    for k, chosen in every.items():
        names = [[work.names[number] for number in numbers] for numbers in chosen]
        members = {name: work.of(method).members[name].classifier for name in used_in(work, chosen)}
        together[k] = PerClass(members, names, weights=method.weights, scale=work.words["scale"])
        together[k].scores_of(pictures[:2], task.classes, task.templates)  # heads are built, memory is there
    least = dict.fromkeys(every, float("inf"))
    for _ in range(timing["repeats"]):
        for k, predictor in together.items():
            began = time.perf_counter()
            predictor.scores_of(pictures, task.classes, task.templates)
            least[k] = min(least[k], time.perf_counter() - began)
    return least


@with_threads
def growth(
    *,
    ask: Mapping[str, Any],
    methods: Mapping[str, Mapping[str, Any]],
    count: int,
    k: int,
    alpha: float,
    asked: str,
    about: Mapping[str, Any],
) -> UnitResult:
    """The hub from one model to all, in `count` random orders."""
    work = work_of(ask)
    joining = orders(len(work.names), count, ask["seed"])
    rules = {name: Method.model_validate(words) for name, words in methods.items()}
    right = {name: np.zeros((*joining.shape, len(work.tasks)), dtype=np.int64) for name in rules}
    for place, task in enumerate(work.tasks):
        for name, method in rules.items():
            own = work.of(method)
            opinion = own.opinion(method, task, alpha)
            right[name][:, :, place] = grow(own.task_scores(task), opinion, joining, k, method.weights)
    pictures = np.array([len(work.true_classes(task)) for task in work.tasks])
    content = {
        "asked": asked,
        "k": k,
        "models": work.names,
        "tasks": dict(zip(work.tasks, pictures.tolist(), strict=True)),
        "orders": joining.tolist(),
        "methods": {name: {"label": method.label, **band(right[name], pictures)} for name, method in rules.items()},
        "right": {name: values.tolist() for name, values in right.items()},
        **{word: about[word] for word in ("suite", "command")},
    }
    return unit_result([], {"hub-growth": content})


@with_threads
def figures(
    *,
    ask: Mapping[str, Any],
    methods: Mapping[str, Mapping[str, Any]],
    spiders: Mapping[str, Any] | None,
    asked: str,
    about: Mapping[str, Any],
) -> UnitResult:
    """How the order of the models by each method agrees with the true one, and models over the classes of one task."""
    work = work_of(ask)
    found: dict[str, Any] = {}
    for name, words in methods.items():
        method = Method.model_validate(words)
        own = work.of(method)
        told = {task: (own.overall(method, task), own.accuracy(task)) for task in work.tasks}
        found[name] = {
            "label": method.label,
            "spearman": {task: spearman(*pair) for task, pair in told.items()},
            "kendall": {task: kendall(*pair) for task, pair in told.items()},
            "predicted": {task: pair[0].tolist() for task, pair in told.items()},
        }
    analyses = {"hub-ranks": {"asked": asked, "models": work.names, "methods": found}}
    if spiders is not None:
        analyses["hub-classes"] = {"asked": asked, **_over_classes(work, **spiders)}
    return unit_result([], analyses)


def _over_classes(work: WorkingHub, task: str, models: int, classes: int) -> dict[str, Any]:
    """The models that are best on most classes of a task, over those classes on which the models differ most."""
    shares = work.task_scores(task).by_class
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
