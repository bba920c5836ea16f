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

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from smelt.errors import RecipeError, unknown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.index import Index
    from smelt.hub.labels.label import Label

    Counted: TypeAlias = NDArray[np.bool_] | None
    """For every picture of the graph whether it counts; nothing where all do."""

__all__ = ["Metric", "PictureChoice", "ask_models", "node_metric"]

PictureChoice: TypeAlias = Literal["all", "domain", "unseen", "domain-unseen"]
"""Which pictures of a node count."""
Metric: TypeAlias = Literal["recall", "precision", "f1"]
_METRICS = get_args(Metric)
_BLOCK = 1 << 10
"""Models whose shares are in memory at once, for each thread."""


def node_metric(
    indexes: Mapping[str, Index], selected: NDArray[np.int64], *, metric: Metric = "recall", **options: Any
) -> NDArray[np.float64]:
    """The metric of every model on every kept node [models, kept nodes]. `options` are those of `ask_models`."""
    found = np.zeros((len(indexes), len(selected)))

    def put(numbers: NDArray[np.int64], values: NDArray[np.float64]) -> None:
        found[numbers] = values

    ask_models(indexes, selected, put, metric=metric, **options)
    return found


def ask_models(
    indexes: Mapping[str, Index],
    selected: NDArray[np.int64],
    put: Callable[[NDArray[np.int64], NDArray[np.float64]], None],
    *,
    metric: Metric = "recall",
    graph: SemanticGraph | None = None,
    pictures: PictureChoice = "all",
    style: str | None = None,
    labels: Mapping[str, Label] | None = None,
) -> None:
    """The same in blocks: `put` gets the numbers of some models, and their rows. It is called from several threads."""
    if metric not in _METRICS:
        raise RecipeError(unknown("metric", metric, _METRICS))
    if pictures not in get_args(PictureChoice):
        raise RecipeError(unknown("choice of pictures", pictures, get_args(PictureChoice)))
    keeps = _counted(graph, pictures, style)
    if metric == "recall":
        _recall(indexes, selected, keeps, put)
        return
    if labels is None or graph is None:
        raise RecipeError(f"metric {metric} needs the models' labels and the graph, since an index knows recall only")
    missing = [name for name in indexes if name not in labels]
    if missing:
        raise RecipeError(f"metric {metric}: {missing[0]} has no label; label it first")
    for number, name in enumerate(indexes):
        put(np.array([number]), _from_answers(labels[name], graph, selected, keeps, metric)[None])


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


def _recall(
    indexes: Mapping[str, Index],
    selected: NDArray[np.int64],
    keeps: Sequence[Counted],
    put: Callable[[NDArray[np.int64], NDArray[np.float64]], None],
) -> None:
    from smelt.hub.labels.index_table import IndexTable

    table = indexes if isinstance(indexes, IndexTable) else IndexTable(indexes)
    chosen = table.checked(selected)
    counted, total = table.counted(chosen, keeps)
    divisor = np.maximum(total, 1)[:, None]

    def shares(numbers: NDArray[np.int64], right: NDArray[np.uint32]) -> None:
        for first in range(0, len(numbers), _BLOCK):
            part = slice(first, first + _BLOCK)
            put(numbers[part], (right[:, part] / divisor).T)

    table.ask(chosen, counted, shares)


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
