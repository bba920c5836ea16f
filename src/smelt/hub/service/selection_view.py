"""A selection as the task's page shows it: who is used, who is best, and for each class why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.hub.service.neighbourhood import thumbs_of

if TYPE_CHECKING:
    from smelt.hub.graph.graph import Node, SemanticGraph
    from smelt.hub.selection.select import Selection

__all__ = ["ClassFinding", "Findings", "MatchedNode", "findings"]

_EXPLAINED, _SHOWN_MODELS, _HEAT_CLASSES = 40, 8, 24


@dataclass(frozen=True)
class MatchedNode:
    """A node that speaks for a class."""

    node: Node
    similarity: float
    thumbs: list[int]
    place: int
    """Its column in the selection's recall."""


@dataclass(frozen=True)
class ClassFinding:
    """One class: its models, its nodes, and how models do on these."""

    name: str
    chosen: list[tuple[str, float]]
    """Models and their reuse metric, best first."""
    nodes: list[MatchedNode]
    rows: list[tuple[str, bool, float, list[float]]]
    """Model, whether it is chosen, its reuse metric, its recall on each node; best first."""


@dataclass(frozen=True)
class Findings:
    """Everything that the page draws."""

    selection: Selection
    ranking: list[tuple[str, float, bool, int]]
    """Model, mean predicted precision, whether it is used, for how many classes."""
    most: float
    classes: list[ClassFinding]
    short: list[tuple[str, list[str]]]
    """Classes beyond those that are explained, with their models."""
    heat: list[tuple[str, list[tuple[float, bool]]]]
    """Model, then for every class its reuse metric and whether it is chosen; empty for very many classes."""
    heat_most: float


def findings(graph: SemanticGraph, selection: Selection, *, explained: int = _EXPLAINED) -> Findings:
    """Read a selection from its numbers alone; the first `explained` classes with their nodes."""
    names, chosen = selection.models, selection.chosen
    counts = dict.fromkeys(names, 0)
    for one in chosen:
        for number in one:
            counts[names[number]] += 1
    ranking = [(name, value, counts[name] > 0, counts[name]) for name, value in selection.ranking]
    classes = [_finding(graph, selection, number) for number in range(min(len(chosen), explained))]
    short = [(selection.task.classes[n], list(selection.chosen_names[n])) for n in range(explained, len(chosen))]
    heat: list[tuple[str, list[tuple[float, bool]]]] = []
    if 1 < len(chosen) <= _HEAT_CLASSES:
        number_of = {name: number for number, name in enumerate(names)}
        order = [number_of[name] for name, *_ in ranking]
        wanted = [m for place, m in enumerate(order) if place < _SHOWN_MODELS or counts[names[m]]]
        heat = [
            (names[m], [(float(selection.reuse[m, y]), m in chosen[y]) for y in range(len(chosen))]) for m in wanted
        ]
    most = max((value for _, value, *_ in ranking), default=1.0)
    return Findings(selection, ranking, most, classes, short, heat, float(selection.reuse.max()))


def _finding(graph: SemanticGraph, selection: Selection, number: int) -> ClassFinding:
    place = {node.number: at for at, node in enumerate(selection.nodes)}
    nodes = [
        MatchedNode(graph.nodes[node], similarity, thumbs_of(graph, graph.nodes[node]), place[node])
        for node, similarity in selection.match.nearest[number]
    ]
    reuse = selection.reuse[:, number]
    order = sorted(range(len(selection.models)), key=lambda m: (-float(reuse[m]), m))
    shown = list(dict.fromkeys([*selection.chosen[number], *order[:_SHOWN_MODELS]]))
    rows = [
        (
            selection.models[m],
            m in selection.chosen[number],
            float(reuse[m]),
            [float(selection.recall[m, one.place]) for one in nodes],
        )
        for m in shown
    ]
    chosen = [(selection.models[m], float(reuse[m])) for m in selection.chosen[number]]
    return ClassFinding(selection.task.classes[number], chosen, nodes, rows)
