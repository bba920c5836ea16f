"""What a selection is compared with: one set of models for all classes of a task, and those who know the truth.

best_on_graph     the models with the best mean recall over ALL nodes of the graph: what the ImageNet baseline is here;
                  over unseen pictures alone it is the mean over those nodes that have some
inb               the ImageNet baseline itself, from a table of known accuracies
oracle            the model that is truly best on the task
ModelGPT / LOVM is in lovm.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from smelt.errors import RecipeError
from smelt.hub.selection.select import best_first

if TYPE_CHECKING:
    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.index import Index

__all__ = ["best_on_graph", "graph_accuracies", "inb", "oracle"]


def graph_accuracies(
    indexes: Mapping[str, Index], graph: SemanticGraph, pictures: Literal["all", "unseen"] = "all"
) -> dict[str, float]:
    """Every model's mean recall over all nodes that have pictures that count, where it chooses among all of these."""
    from smelt.hub.labels.index import right_of_many

    if not indexes:
        raise RecipeError("there is no labelled model to compare; add one first")
    keep = graph.unseen if pictures == "unseen" else np.ones(len(graph.pictures), dtype=bool)
    counted = [number for number, node in enumerate(graph.nodes) if keep[list(node.pictures)].any()]
    if not counted:
        raise RecipeError(f"the graph {graph.name!r} has no {pictures} picture to compare models by")
    right, total = right_of_many(list(indexes.values()), np.array(counted, dtype=np.int64), keep)
    return {name: float(mean) for name, mean in zip(indexes, (right / np.maximum(total, 1)).mean(axis=1), strict=True)}


def best_on_graph(indexes: Mapping[str, Index], graph: SemanticGraph, k: int = 1) -> tuple[str, ...]:
    """The k models with the best mean recall over the whole graph, best first; the same for every class of any task."""
    return inb(graph_accuracies(indexes, graph), k)


def inb(accuracies: Mapping[str, float], k: int = 1) -> tuple[str, ...]:
    """The k models with the highest known accuracies, best first; among equal ones the first of the table."""
    if k < 1:
        raise RecipeError(f"k is how many models are taken, at least 1; got {k}")
    if not accuracies:
        raise RecipeError("there are no accuracies to choose by")
    names, values = list(accuracies), np.array(list(accuracies.values()), dtype=np.float64)
    if not np.isfinite(values).all():
        raise RecipeError(f"the accuracy of {names[int((~np.isfinite(values)).argmax())]} is not a number")
    return tuple(names[number] for number in best_first(values)[:k])


def oracle(accuracies: Mapping[str, float]) -> str:
    """The one model that is truly best on a task: what no selection of a single model can beat."""
    return inb(accuracies, 1)[0]
