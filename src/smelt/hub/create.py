"""A hub's beginning, and the growth of its graph: the graph's folder first, then the row that makes it the hub's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from smelt.errors import RecipeError, SmeltError, unknown
from smelt.hub.graph.graph import SemanticGraph, find_graph
from smelt.hub.labels.label import NodeText
from smelt.hub.location import HubLocation

if TYPE_CHECKING:
    from smelt.hub.graph.graph import NewNode
    from smelt.hub.labels.labelling import Labelling
    from smelt.hub.store.schema import GraphRow
    from smelt.hub.store.store import HubStore

__all__ = ["create_hub", "grow_graph"]

_ATTEMPTS = 5


def create_hub(
    place: HubLocation,
    graph: str | Path | SemanticGraph,
    *,
    name: str,
    embedder: str,
    embedder_config: Mapping[str, Any],
    node_text: str,
) -> HubStore:
    """The store of a new hub, with its own copy of the graph."""
    from smelt.hub.matching.embed import find_embedder
    from smelt.hub.store.schema import HubRow
    from smelt.hub.store.store import HubStore

    if node_text not in get_args(NodeText):
        raise RecipeError(unknown("text of a node", node_text, get_args(NodeText)))
    find_embedder(embedder, **embedder_config)  # a name that is unknown is refused now, not at the first selection
    opened = find_graph(graph)
    if not any(node.pictures for node in opened.nodes):
        raise RecipeError(f"the graph {opened.name!r} has no pictures, so no model can be tested on it")
    store = HubStore.create(place)
    try:
        with store.staging() as staging:
            saved = opened.save(staging / "graph")
            hub = HubRow(
                name=name,
                embedder=embedder,
                embedder_config=json.dumps(dict(embedder_config)),
                node_text=node_text,
                graph=saved.version,
            )
            store.found(hub, staging / "graph", _row(saved))
    except BaseException:
        store.close()
        raise
    return store


def grow_graph(
    store: HubStore, labelling: Labelling, present: Callable[[], SemanticGraph], new: Sequence[NewNode]
) -> SemanticGraph:
    """Add nodes, extend every label, and only then make the new graph the hub's: selections go on meanwhile.

    Labels that were finished on the old graph in the meantime are extended right after.
    """
    for _ in range(_ATTEMPTS):
        before = present()
        with store.staging() as staging:
            graph = before.with_nodes(new).save(staging / "graph")
            for row in store.models():
                labelling.extend(row, before, graph)
            if store.replace_graph(staging / "graph", _row(graph), before.version):
                graph = present()
                for row in store.models():
                    labelling.extend(row, before, graph)
                store.forget_graphs([before.version, graph.version])  # somebody may still be reading the last one
                return present()
    raise SmeltError("other processes keep adding nodes to the graph; try again")


def _row(graph: SemanticGraph) -> GraphRow:
    from smelt.hub.store.schema import GraphRow

    return GraphRow(version=graph.version, name=graph.name, nodes=len(graph.nodes), pictures=len(graph.pictures))
