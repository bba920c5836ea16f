"""The graph around one node: its way to the root, its neighbours as drawings need them, its pictures by style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from smelt.hub.service.views.charts import Leaf, Tree

if TYPE_CHECKING:
    from smelt.hub.graph.graph import Node, SemanticGraph

__all__ = ["Neighbourhood", "leaf_of", "link_to", "neighbourhood_of", "path_to", "picture_link", "thumbs_of"]

_SIBLINGS, _CHILDREN, _PARENTS = 8, 12, 4


@dataclass(frozen=True)
class Neighbourhood:
    """A node's page."""

    tree: Tree
    path: list[Node]
    """From the root to the node's first parent."""
    parents: list[Node]
    children: list[Node]
    siblings: list[Node]
    pictures: dict[str, list[int]]
    """Numbers by style."""
    below: int
    """How many nodes are under it."""


def neighbourhood_of(graph: SemanticGraph, node: Node) -> Neighbourhood:
    """Everything that a walker sees from a node."""
    path = path_to(graph, node)
    parents = [graph.node(id_) for id_ in node.parents]
    children = [graph.node(id_) for id_ in graph.children(node.id)]
    kin = dict.fromkeys(id_ for parent in node.parents for id_ in graph.children(parent))
    siblings = [graph.node(id_) for id_ in kin if id_ != node.id]
    pictures = _by_style(graph, node)
    near, low = _with_pictures(siblings, _SIBLINGS), _with_pictures(children, _CHILDREN)
    tree = Tree(
        leaf_of(graph, node),
        [leaf_of(graph, one) for one in path],
        [leaf_of(graph, one) for one in parents[:_PARENTS]],
        [leaf_of(graph, one) for one in near],
        [leaf_of(graph, one) for one in low],
        (len(siblings) - len(near), len(children) - len(low)),
    )
    return Neighbourhood(tree, path, parents, children, siblings, pictures, len(graph.descendants(node.id)))


def path_to(graph: SemanticGraph, node: Node) -> list[Node]:
    """The first hypernym's first hypernym and so on: from the root down to the node's parent."""
    path: list[Node] = []
    while node.parents:
        node = graph.node(node.parents[0])
        path.append(node)
    return path[::-1]


def leaf_of(graph: SemanticGraph, node: Node) -> Leaf:
    """A node with its first picture and how many it has."""
    thumb = picture_link(node.pictures[0]) if node.pictures else None
    count = len(graph.children(node.id))
    return Leaf(node.name, link_to(node.id), thumb, f"{count} below" if count else "")


def thumbs_of(graph: SemanticGraph, node: Node, most: int = 4) -> list[int]:
    """A few pictures of a node, of as many styles as there are."""
    by_style = _by_style(graph, node)
    found: list[int] = []
    while len(found) < most and any(by_style.values()):
        found += [numbers.pop(0) for numbers in by_style.values() if numbers]
    return found[:most]


def _by_style(graph: SemanticGraph, node: Node) -> dict[str, list[int]]:
    pictures: dict[str, list[int]] = {}
    for number in node.pictures:
        pictures.setdefault(graph.pictures[number].style, []).append(number)
    return pictures


def link_to(id: str) -> str:  # noqa: A002 - nodes have ids
    return f"/graph/{quote(id, safe='')}"


def picture_link(number: int) -> str:
    return f"/pictures/{number}.webp"


def _with_pictures(nodes: Sequence[Node], most: int) -> list[Node]:
    """The first few, those with pictures before those without, in the graph's order."""
    if len(nodes) <= most:
        return list(nodes)
    chosen = set(sorted(range(len(nodes)), key=lambda at: (not nodes[at].pictures, at))[:most])
    return [node for at, node in enumerate(nodes) if at in chosen]
