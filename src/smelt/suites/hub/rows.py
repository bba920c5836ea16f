"""The rows of a hub suite: models that a method chose, asked together; and a model that nobody chose."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from smelt.evaluation.provenance import row_of_logits
from smelt.evaluation.row import Row, code_version, now
from smelt.recipe.schema import DataBudget
from smelt.suites.hub.growth import chosen_among
from smelt.suites.hub.method_scores import WorkingHub
from smelt.suites.hub.suite import Method
from smelt.suites.hub.task_scores import Chosen
from smelt.suites.units import digest
from smelt.tasks.intervals import wilson

__all__ = ["anybody_row", "chosen_by", "chosen_row", "used_in"]

_DRAWS = 30
"""Random sets of several models, where nobody chooses."""


def chosen_by(work: WorkingHub, method: Method, task: str, k: int, alpha: float) -> list[tuple[int, ...]]:
    """The k models that a method chooses for each class of a task, out of the whole hub."""
    everyone = np.arange(len(work.names))
    return chosen_among(work.of(method).opinion(method, task, alpha)(everyone), everyone, k)


def used_in(work: WorkingHub, chosen: Chosen) -> dict[str, int]:
    """The models that are asked, in the hub's order, and about how many classes each."""
    every = [number for numbers in chosen for number in numbers]
    return {work.names[number]: every.count(number) for number in sorted(set(every))}


def chosen_row(work: WorkingHub, method: Method, task: str, k: int, alpha: float, about: Mapping[str, Any]) -> Row:
    """The row of the models that a method chooses, asked together."""
    work = work.of(method)
    chosen = chosen_by(work, method, task, k, alpha)
    scores = work.task_scores(task).scores(chosen, method.weights)
    logits = torch.from_numpy(np.log(np.maximum(scores, 1e-300)))
    used, hub = used_in(work, chosen), work.words
    recipe = {
        "select": method.model_dump(exclude={"label"}) | {"k": k, "alpha": alpha, "nodes": hub["nodes"]},
        **hub["tasks"][task],
        "graph": work.graph.version,
        "classes": len(chosen),
        "used": used,
        **({"read_by": {name: work.members[name].reader for name in used}} if method.reader else {}),
    }
    hashes = [work.members[name].identity(work.graph).hash for name in used]
    words = {
        "recipe": recipe,
        "recipe_hash": digest(recipe, [list(one) for one in chosen], hashes),
        "model": "hub",
        "model_hash": digest(hashes, [list(one) for one in chosen]),
        "way": "ensemble",
        "data_budget": _budget(work, method, task),
        "device": hub["device"],
        "seed": hub["seed"],
    }
    truth = torch.from_numpy(work.true_classes(task))
    return row_of_logits(logits, truth, task=work.tasks[task], level=None, about={**about, **words})


def _budget(work: WorkingHub, method: Method, task: str) -> DataBudget:
    """The labelled pictures that a choice was made with, beyond the graph's."""
    if method.by == "oracle":
        own = len(work.true_classes(task))
        return DataBudget(split="test", images=own, labels=own)
    if method.by == "text":
        others = sum(len(work.true_classes(other)) for other in work.tasks if other != task)
        return DataBudget(split="other-task", images=others, labels=others)
    return DataBudget()


def anybody_row(work: WorkingHub, method: Method, task: str, k: int, about: Mapping[str, Any]) -> Row:
    """What one gets without choosing: the mean over all models, or over random sets of k of them."""
    work = work.of(method)
    known, everyone = work.task_scores(task), len(work.names)
    sets = [(number,) for number in range(everyone)]
    if k > 1:
        draws = (np.random.default_rng([work.words["seed"], k, draw]) for draw in range(_DRAWS))
        sets = [tuple(sorted(draw.permutation(everyone)[:k].tolist())) for draw in draws]
    every = [known.scores([one] * len(work.tasks[task].classes), method.weights) for one in sets]
    right = [int((scores.argmax(axis=1) == known.labels).sum()) for scores in every]
    n, mean = len(known.labels), sum(right) / len(right)
    low, high = wilson(mean, n)
    recipe = {"select": {"by": "random", "k": k}, "sets": len(right)}
    return Row(
        **about,
        task=task,
        task_version=work.tasks[task].version,
        split="test",
        n=n,
        correct=round(mean),
        accuracy=mean / n,
        low=low,
        high=high,
        loss=float(np.mean([known.loss(scores) for scores in every])),
        model="hub",
        model_hash=digest([member.identity(work.graph).hash for member in work.members.values()]),
        recipe=recipe,
        recipe_hash=digest(recipe, right),
        way="ensemble",
        seed=work.words["seed"],
        code=code_version(),
        device=work.words["device"],
        dtype="float32",
        when=now(),
    )
