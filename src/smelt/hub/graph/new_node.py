"""A new node of a hub's graph: an id and picture files in; what the command line does not say comes from WordNet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.caller import Blank, option
from smelt.errors import MissingExtra, RecipeError

if TYPE_CHECKING:
    from smelt.hub.graph.graph import NewNode, SemanticGraph
    from smelt.hub.graph.wordnet import Sense

__all__ = ["new_node"]

_ID = re.compile(r"[^\s/\\]+\.[a-z]\.\d{2,}")


def new_node(
    id: str,  # noqa: A002 - nodes have ids
    pictures: Sequence[Path],
    graph: SemanticGraph,
    *,
    style: str = "photo",
    source: str = "",
    name: str | None = None,
    definition: str | None = None,
    parents: Sequence[str] | None = None,
) -> NewNode:
    """The node, checked. Parents by WordNet are the nearest hypernyms that the graph has."""
    from smelt.hub.graph.graph import MOST, NewNode

    if not _ID.fullmatch(id):
        raise RecipeError(f"{id!r} cannot be a node's id: ids are like zebra.n.01")
    if any(node.id == id for node in graph.nodes):
        raise RecipeError(f"the graph has a node {id!r} already; nodes are added, never changed")
    if len(pictures) > MOST:
        raise RecipeError(f"{len(pictures)} pictures are given, but at most {MOST} of a node count; choose them")
    sense: Sense | str = "" if None not in (name, definition, parents) else _sense(id)
    if isinstance(sense, str) and (name is None or definition is None):
        raise RecipeError(
            f"say what {id} is with {option('name', Blank('NAME'))} and {option('definition', Blank('TEXT'))} ({sense})"
        )
    known: Any = None if isinstance(sense, str) else sense
    return NewNode(
        id,
        name or known.name,
        definition or known.definition,
        known.names if known and name is None else (),
        list(parents) if parents is not None else _hypernyms(known, graph) if known else [],
        [(style, f"{source} {path.name}".strip(), _content(path)) for path in pictures],
    )


def _sense(id: str) -> Sense | str:  # noqa: A002
    """What WordNet says of an id, or why it says nothing."""
    from smelt.hub.graph.wordnet import WordNet

    try:
        return WordNet.open().synset(id)
    except (RecipeError, MissingExtra) as error:
        return str(error)


def _hypernyms(sense: Sense, graph: SemanticGraph) -> list[str]:
    from smelt.hub.graph.wordnet import WordNet

    wordnet, here = WordNet.open(), {node.id for node in graph.nodes}
    found: dict[str, None] = {}
    waiting = list(sense.parents)
    for one in waiting:  # grows as it goes
        if one in here:
            found[one] = None
        else:
            waiting += [above for above in wordnet.synset(one).parents if above not in waiting]
    return list(found)


def _content(path: Path) -> Any:
    """The file itself; its pixels where it is transparent, turned, or not readable as it is."""
    from PIL import Image, UnidentifiedImageError

    from smelt.hub.selection.predict import as_pixels

    try:
        with Image.open(path) as opened:
            plain = opened.mode in ("RGB", "L") and "transparency" not in opened.info
            if plain and opened.getexif().get(0x0112, 1) == 1:
                return path
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError):
        pass  # told by the next line, in words
    return as_pixels(path)
