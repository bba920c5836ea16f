"""How each model does on each kept node: the numbers of formula (5) [models, nodes] from indexes or labels.

recall      TP / (TP + FN)           the paper's (5): from the index alone, nothing is computed with floats
precision   TP / (TP + FP)           needs what every model answers on the pictures of all kept nodes: its label
f1          2 TP / (2 TP + FP + FN)

An answer is the best-scoring node among the kept ones, ties to the lower number. A picture that two nodes share is
asked twice, once for each. Where only pictures of one style count, a node that has none of it keeps all it has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

import numpy as np

from smelt.errors import RecipeError, unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.index import Index
    from smelt.hub.labels.label import Label

__all__ = ["node_metric"]

_METRICS = ("recall", "precision", "f1")
_PICTURES = ("all", "domain")


def node_metric(
    indexes: Mapping[str, Index],
    selected: NDArray[np.int64],
    *,
    metric: Literal["recall", "precision", "f1"] = "recall",
    graph: SemanticGraph | None = None,
    pictures: Literal["all", "domain"] = "all",
    style: str | None = None,
    labels: Mapping[str, Label] | None = None,
) -> NDArray[np.float64]:
    """The metric of every model on every kept node [models, kept nodes]."""
    if metric not in _METRICS:
        raise RecipeError(unknown("metric", metric, _METRICS))
    if pictures not in _PICTURES:
        raise RecipeError(unknown("choice of pictures", pictures, _PICTURES))
    keep = _of_style(graph, style) if pictures == "domain" else None
    if metric == "recall":
        return _recall(indexes, selected, keep)
    if labels is None or graph is None:
        raise RecipeError(f"metric {metric} needs the models' labels and the graph, since an index knows recall only")
    missing = [name for name in indexes if name not in labels]
    if missing:
        raise RecipeError(f"metric {metric}: {missing[0]} has no label; label it first")
    return np.stack([_from_answers(labels[name], graph, selected, keep, metric) for name in indexes])


def _of_style(graph: SemanticGraph | None, style: str | None) -> NDArray[np.bool_]:
    """Which of the graph's pictures have the style."""
    if graph is None or style is None:
        raise RecipeError("pictures: domain needs the graph and a style of its pictures (see domain_style)")
    if style not in graph.styles:
        raise RecipeError(unknown("style", style, graph.styles))
    return np.asarray(graph.style_of(range(len(graph.pictures))) == graph.styles.index(style))


def _recall(
    indexes: Mapping[str, Index], selected: NDArray[np.int64], keep: NDArray[np.bool_] | None
) -> NDArray[np.float64]:
    from smelt.hub.labels.index import right_of_many

    right, total = right_of_many(list(indexes.values()), selected, keep)
    if keep is not None and not total.all():
        every_right, every = right_of_many(list(indexes.values()), selected)
        right, total = np.where(total > 0, right, every_right), np.where(total > 0, total, every)
    return right / np.maximum(total, 1)


def _from_answers(
    label: Label, graph: SemanticGraph, selected: NDArray[np.int64], keep: NDArray[np.bool_] | None, metric: str
) -> NDArray[np.float64]:
    from smelt.hub.labels.index import argmax_counts

    counts = argmax_counts(label, graph, selected, keep)  # a row for each true node
    empty = counts.sum(axis=1) == 0
    if keep is not None and empty.any():
        counts = np.where(empty[:, None], argmax_counts(label, graph, selected), counts)
    hits, said, there = counts.diagonal(), counts.sum(axis=0), counts.sum(axis=1)
    share = hits / np.maximum(said, 1) if metric == "precision" else 2 * hits / np.maximum(said + there, 1)
    return np.asarray(share, dtype=np.float64)
