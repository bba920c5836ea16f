"""How each model does on each kept node: the numbers of formula (5) [models, nodes] from indexes or labels.

recall      TP / (TP + FN)           the paper's (5): from the index alone, nothing is computed with floats
precision   TP / (TP + FP)           needs what every model answers on the pictures of all kept nodes: its label
f1          2 TP / (2 TP + FP + FN)

An answer is the best-scoring node among the kept ones, ties to the lower number. A picture that two nodes share is
asked twice, once for each. Which pictures of a node count (`pictures`):

all              all
domain           those of one style; a node that has none of it keeps all it has
unseen           those that no model was trained on; a node that has none gives every model the record 0
domain-unseen    the unseen ones of the style; a node that has none of these keeps its unseen ones, or none

A node never falls back to pictures that some model was trained on: they would favour that model. The record 0 is the
same for all models, so that a choice goes by the other nodes of a class, and by the other classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from smelt.errors import RecipeError, unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.index import Index
    from smelt.hub.labels.label import Label

    Counted: TypeAlias = NDArray[np.bool_] | None
    """For every picture of the graph whether it counts; nothing where all do."""

__all__ = ["PictureChoice", "node_metric"]

PictureChoice: TypeAlias = Literal["all", "domain", "unseen", "domain-unseen"]
"""Which pictures of a node count."""
_METRICS = ("recall", "precision", "f1")


def node_metric(
    indexes: Mapping[str, Index],
    selected: NDArray[np.int64],
    *,
    metric: Literal["recall", "precision", "f1"] = "recall",
    graph: SemanticGraph | None = None,
    pictures: PictureChoice = "all",
    style: str | None = None,
    labels: Mapping[str, Label] | None = None,
) -> NDArray[np.float64]:
    """The metric of every model on every kept node [models, kept nodes]."""
    if metric not in _METRICS:
        raise RecipeError(unknown("metric", metric, _METRICS))
    if pictures not in get_args(PictureChoice):
        raise RecipeError(unknown("choice of pictures", pictures, get_args(PictureChoice)))
    keeps = _counted(graph, pictures, style)
    if metric == "recall":
        return _recall(indexes, selected, keeps)
    if labels is None or graph is None:
        raise RecipeError(f"metric {metric} needs the models' labels and the graph, since an index knows recall only")
    missing = [name for name in indexes if name not in labels]
    if missing:
        raise RecipeError(f"metric {metric}: {missing[0]} has no label; label it first")
    return np.stack([_from_answers(labels[name], graph, selected, keeps, metric) for name in indexes])


def _counted(graph: SemanticGraph | None, pictures: PictureChoice, style: str | None) -> list[Counted]:
    """Which of the graph's pictures count; then, for nodes that have none of them, which count there."""
    if pictures == "all":
        return [None]
    if pictures == "domain":
        return [_of_style(graph, style), None]
    if graph is None:
        raise RecipeError(f"pictures: {pictures} needs the graph, which knows what models were trained on")
    unseen = graph.unseen
    return [unseen] if pictures == "unseen" else [unseen & _of_style(graph, style), unseen]


def _of_style(graph: SemanticGraph | None, style: str | None) -> NDArray[np.bool_]:
    """Which of the graph's pictures have the style."""
    if graph is None or style is None:
        raise RecipeError("pictures: domain needs the graph and a style of its pictures (see domain_style)")
    if style not in graph.styles:
        raise RecipeError(unknown("style", style, graph.styles))
    return np.asarray(graph.style_of(range(len(graph.pictures))) == graph.styles.index(style))


def _recall(indexes: Mapping[str, Index], selected: NDArray[np.int64], keeps: Sequence[Counted]) -> NDArray[np.float64]:
    from smelt.hub.labels.index import right_of_many

    right, total = right_of_many(list(indexes.values()), selected, keeps[0])
    for keep in keeps[1:]:
        if not total.all():
            more_right, more = right_of_many(list(indexes.values()), selected, keep)
            right, total = np.where(total > 0, right, more_right), np.where(total > 0, total, more)
    return right / np.maximum(total, 1)


def _from_answers(
    label: Label, graph: SemanticGraph, selected: NDArray[np.int64], keeps: Sequence[Counted], metric: str
) -> NDArray[np.float64]:
    from smelt.hub.labels.index import argmax_counts

    counts = argmax_counts(label, graph, selected, keeps[0])  # a row for each true node
    for keep in keeps[1:]:
        empty = counts.sum(axis=1) == 0
        if empty.any():
            counts = np.where(empty[:, None], argmax_counts(label, graph, selected, keep), counts)
    hits, said, there = counts.diagonal(), counts.sum(axis=0), counts.sum(axis=1)
    share = hits / np.maximum(said, 1) if metric == "precision" else 2 * hits / np.maximum(said + there, 1)
    return np.asarray(share, dtype=np.float64)
