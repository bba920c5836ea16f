"""What can be wrong with the nodes of a graph: names that are taken, unknown hypernyms, circles, missing pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smelt.hub.graph.graph import Node

__all__ = ["children_first", "faults"]

_NAMED = 5
"""Faults that are told; the rest is a number."""


def faults(nodes: Sequence[Node], pictures: int, most: int) -> list[str]:
    """Everything that keeps nodes from being a graph, the first few in words."""
    known = {node.id for node in nodes}
    wrong = [
        f"the id {name!r} is there {count} times"
        for name, count in Counter(node.id for node in nodes).items()
        if count > 1
    ]
    for node in nodes:
        wrong += _of_node(node, known, pictures, most)
    if not wrong:
        try:
            children_first({node.id: node.parents for node in nodes})
        except CycleError as error:
            wrong.append(f"its hypernyms run in a circle ({' -> '.join(error.args[1])})")
    return wrong if len(wrong) <= _NAMED else [*wrong[:_NAMED], f"and {len(wrong) - _NAMED} faults more"]


def children_first(parents: Mapping[str, Sequence[str]]) -> list[str]:
    """Every node after all of its hyponyms. CycleError where that cannot be."""
    below: dict[str, list[str]] = {name: [] for name in parents}
    for name, above in parents.items():
        for parent in above:
            below.setdefault(parent, []).append(name)
    return list(TopologicalSorter(below).static_order())


def _of_node(node: Node, known: set[str], pictures: int, most: int) -> list[str]:
    wrong = []
    if not node.id or not node.name:
        wrong.append(f"the node {node.id!r} needs an id and a name; its name is {node.name!r}")
    if strangers := [parent for parent in node.parents if parent not in known]:
        wrong.append(f"the hypernym {strangers[0]!r} of {node.id!r} is not in the graph")
    if beyond := [number for number in node.pictures if not 0 <= number < pictures]:
        wrong.append(f"{node.id!r} has the picture {beyond[0]}, but the graph has {pictures} pictures")
    if len(set(node.pictures)) != len(node.pictures):
        wrong.append(f"{node.id!r} has a picture twice")
    if len(node.pictures) > most:
        wrong.append(f"{node.id!r} has {len(node.pictures)} pictures; at most {most} count, choose them")
    return wrong
