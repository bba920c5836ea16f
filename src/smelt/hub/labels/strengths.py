"""What a model is good at, from its index: the recall of every leaf of the graph among all leaves, and sums of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from smelt.hub.models.cards import NodeScore, Strengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.index import Index

__all__ = ["find_strengths", "leaves"]

_BRANCHES = 12
_SMALLEST = 2
"""Leaves that a branch has at least; smaller ones are nodes by another name."""


def leaves(graph: SemanticGraph) -> NDArray[np.int64]:
    """The numbers of the nodes with pictures that have no hyponym with pictures: no two of them mean the same."""
    seen = {node.id for node in graph.nodes if node.pictures}
    inner = {parent for node in graph.nodes if node.id in seen for parent in graph.ancestors(node.id)}
    numbers = [number for number, node in enumerate(graph.nodes) if node.id in seen and node.id not in inner]
    return np.array(numbers, dtype=np.int64)


def find_strengths(model: str, index: Index, graph: SemanticGraph, limit: int = 20) -> Strengths:
    """The best and worst leaves, and the share of right answers by style and by branch."""
    numbers = leaves(graph)
    right, total = index.right(numbers)
    nodes = [graph.nodes[number] for number in numbers]
    scores = [
        NodeScore(node.id, node.name, int(hits) / int(count), int(count))
        for node, hits, count in zip(nodes, right, total, strict=True)
        if count
    ]
    by_style = {}
    styles = np.array([picture.style for picture in graph.pictures])
    for style in graph.styles:
        hits, count = index.right(numbers, styles == style)
        if count.sum():
            by_style[style] = float(hits.sum() / count.sum())
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
