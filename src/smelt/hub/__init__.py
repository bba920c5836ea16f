"""The hub: models labelled once on a semantic graph, then selected and reused for any task without running them on it.

    graph ──► labels ──► index          submission: each model is tested once, when it is added
    task words ──► match ──► select ──► reuse       identification: which model for which class, and why

Model Label Learning (Tan et al. 2025). `store/` keeps it all, `service/` shows it. Names load when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from smelt.public_names import dir_of

if TYPE_CHECKING:
    from smelt.hub.graph.graph import NewNode, Node, Picture, SemanticGraph, find_graph
    from smelt.hub.hub import Hub
    from smelt.hub.matching.match import Match
    from smelt.hub.selection.select import Selection

__all__ = ["Hub", "Match", "NewNode", "Node", "Picture", "Selection", "SemanticGraph", "find_graph"]

_HOME = {
    **dict.fromkeys(("NewNode", "Node", "Picture", "SemanticGraph", "find_graph"), "graph.graph"),
    "Hub": "hub",
    "Match": "matching.match",
    "Selection": "selection.select",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


__dir__ = dir_of(__name__)
