"""Matching for a hub: captions of a task's classes and of the graph's nodes, embedded alike, the nodes' only once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import RecipeError
from smelt.hub.selection.select import TaskWords

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.matching.embed import Embedder
    from smelt.hub.matching.match import Match

__all__ = ["Matching", "check_letters", "task_words"]

_LONGEST = 500
_MOST_CLASSES = 20_000


def task_words(classes: Sequence[str], domain: str, task: str) -> TaskWords:
    """A task's description, checked: every class named, none twice."""
    if isinstance(classes, str):
        raise RecipeError(f"classes is a list of names; got the text {classes!r}")
    names = tuple(str(name).strip() for name in classes)
    if not names or len(names) > _MOST_CLASSES:
        raise RecipeError(f"a task has 1 to {_MOST_CLASSES:,} classes; got {len(names)}")
    if not all(names):
        raise RecipeError(f"class number {names.index('') + 1} has no name")
    if twice := next((name for name in names if names.count(name) > 1), None) if len(set(names)) < len(names) else None:
        raise RecipeError(f"the class {twice!r} is given twice")
    if long := next((text for text in (*names, domain, task) if len(text) > _LONGEST), None):
        raise RecipeError(f"{long[:40]!r}... is longer than {_LONGEST} letters")
    check_letters((*names, domain, task))
    return TaskWords(names, domain.strip() or "natural picture", task.strip() or "image classification")


def check_letters(texts: Sequence[str]) -> None:
    """Refuse half a character (a lone surrogate, as JSON may hold one): no file and no model can take it."""
    for text in texts:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise RecipeError(
                f"{text[:80]!r} holds half of a character (U+{ord(text[error.start]):04X}); write whole ones, as UTF-8 "
                "has them"
            ) from None


class Matching:
    """The hub's embedder, made when it is first needed, and what it made of the graph."""

    def __init__(self, name: str, config: Mapping[str, Any]):
        self._name, self._config = name, dict(config)
        self._lock = threading.Lock()
        self._embedder: Embedder | None = None
        self._nodes: tuple[str, NDArray[np.float32]] | None = None

    def match(
        self, words: TaskWords, graph: SemanticGraph, *, nodes: int, captions: Any = None
    ) -> tuple[Match, dict[str, Any]]:
        """The nodes that speak for each class, and the words that tell how they were found."""
        from smelt.hub.matching.match import match

        texts, how = _captions(words, graph, captions)
        embedder = self._found()
        among = np.array([bool(node.pictures) for node in graph.nodes])
        vectors = self._node_vectors(embedder, graph)
        found = match(embedder.embed(texts), vectors, nodes=nodes, among=among)
        return found, {"embedder": embedder.name, "captions": how, "nodes": nodes, "graph": graph.version}

    def style(self, domain: str, graph: SemanticGraph) -> str:
        """The style of the graph's pictures that is nearest to a domain."""
        from smelt.hub.matching.match import domain_style

        return domain_style(domain, graph.styles, self._found())

    def _found(self) -> Embedder:
        from smelt.hub.matching.embed import find_embedder

        with self._lock:
            self._embedder = self._embedder or find_embedder(self._name, **self._config)
            return self._embedder

    def _node_vectors(self, embedder: Embedder, graph: SemanticGraph) -> NDArray[np.float32]:
        with self._lock:
            if self._nodes is None or self._nodes[0] != graph.version:
                self._nodes = graph.version, embedder.embed([node.caption for node in graph.nodes])
            return self._nodes[1]


def _captions(words: TaskWords, graph: SemanticGraph, captions: Any) -> tuple[list[str], str]:
    if captions is None:
        from smelt.hub.matching.captions import TemplateCaptions

        captions = TemplateCaptions(graph)
    if hasattr(captions, "captions"):
        made = captions.captions(words.classes, domain=words.domain, task=words.task)
        return list(made), str(getattr(captions, "name", type(captions).__name__))
    given = [str(text) for text in captions]
    check_letters(given)
    if len(given) != len(words.classes):
        raise RecipeError(f"there are {len(words.classes)} classes, but {len(given)} captions; give one for each")
    return given, "given"
