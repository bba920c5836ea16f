"""What a model is good at: its right answers on every leaf of the graph among all leaves, which its index has; sums."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smelt.hub.labels.index_build import leaves
from smelt.hub.models.cards import NodeScore, Strengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.index import Index

__all__ = ["find_strengths"]

_BRANCHES = 12
_SMALLEST = 2
"""Leaves that a branch has at least; smaller ones are nodes by another name."""


def find_strengths(model: str, index: Index, graph: SemanticGraph, limit: int = 20) -> Strengths:
    """The best and worst leaves, and the share of right answers by style and by branch."""
    numbers = leaves(graph)
    sizes = np.array([len(node.pictures) for node in graph.nodes], dtype=np.int64)
    standing = index.standing.astype(np.int64)
    right, total = standing[numbers], sizes[numbers]
    nodes = [graph.nodes[number] for number in numbers]
    scores = [
        NodeScore(node.id, node.name, int(hits) / int(count), int(count))
        for node, hits, count in zip(nodes, right, total, strict=True)
        if count
    ]
    shown = [picture for number in numbers for picture in graph.nodes[number].pictures]
    counts = np.bincount(graph.style_of(shown), minlength=len(graph.styles))
    hits_by_style = standing[len(graph.nodes) :]
    by_style = {
        style: float(hits / count)
        for style, hits, count in zip(graph.styles, hits_by_style, counts, strict=True)
        if count
    }
    ranked = sorted(scores, key=lambda one: -one.recall)
    best = ranked[:limit]
    worst = [one for one in sorted(scores, key=lambda one: one.recall) if one not in best][:limit]
    return Strengths(
        model,
        best,
        worst,
        by_style,
        _by_branch(graph, numbers, right, total),
        float(right.sum() / max(1, total.sum())),
        len(scores),
        int(total.sum()),
    )


def _by_branch(
    graph: SemanticGraph, numbers: NDArray[np.int64], right: NDArray[np.int64], total: NDArray[np.int64]
) -> dict[str, float]:
    """The hypernyms that divide the leaves best: large ones first, none that repeats one before it."""
    under: dict[str, frozenset[int]] = {}
    for place, number in enumerate(numbers):
        for parent in graph.ancestors(graph.nodes[number].id):
            under[parent] = under.get(parent, frozenset()) | {place}
    fitting = {name: places for name, places in under.items() if _SMALLEST <= len(places) <= len(numbers) // 2}
    found: dict[str, float] = {}
    taken: list[frozenset[int]] = []
    for name, places in sorted(fitting.items(), key=lambda one: (-len(one[1]), graph.number(one[0]))):
        if any(len(places & other) > len(places) // 2 for other in taken):
            continue
        taken.append(places)
        chosen = sorted(places)
        found[graph.node(name).name] = float(right[chosen].sum() / max(1, total[chosen].sum()))
        if len(found) == _BRANCHES:
            break
    return found
