"""Making an index from a label: score the pictures of every node with the texts of all, and note who beats it.

Where an index on the beginning of the graph is there already, its lists are taken over: they only grow at their ends,
by new nodes, since numbers are never given anew. Then the old pictures are scored with the new texts alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import RecipeError
from smelt.hub.labels.right_answers import counted_pictures, right_answers
from smelt.hub.labels.segment import Entries, Segment, assembled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.label import Label

__all__ = ["beaters", "built", "leaves", "with_standing"]


def built(label: Label, graph: SemanticGraph, before: tuple[Segment, int] | None) -> Segment:
    """The index of a label; `before` is that on the beginning of the graph: a segment, and the model's number in it."""
    _check(label, graph, before)
    pictures = [np.array(node.pictures, dtype=np.uint32) for node in graph.nodes]
    found = assembled(
        label.key,
        len(graph.styles),
        len(graph.pictures),
        np.cumsum([0, *map(len, pictures)]).astype(np.uint32),
        np.concatenate([np.zeros(0, dtype=np.uint32), *pictures]),
        _nodes(label, graph, before),
    )
    return with_standing(found, graph)


def with_standing(segment: Segment, graph: SemanticGraph) -> Segment:
    """A segment of one model with what it gets right among the leaves of the graph, by leaf and by style."""
    numbers = leaves(graph)
    standing = np.zeros_like(segment.standing)
    if len(numbers):
        counted = counted_pictures(segment, numbers)
        standing[0, numbers] = right_answers(segment, numbers, counted)[:, 0]
        styles = graph.style_of(range(len(graph.pictures)))
        for style in range(len(graph.styles)):
            counted = counted_pictures(segment, numbers, styles == style)
            standing[0, segment.nodes + style] = right_answers(segment, numbers, counted).sum()
    return replace(segment, standing=standing)


def _nodes(label: Label, graph: SemanticGraph, before: tuple[Segment, int] | None) -> Iterator[Entries]:
    old = before[0].nodes if before is not None else 0
    texts = label.texts.astype(np.float64)
    for number, node in enumerate(graph.nodes):
        width = max(1, -(-len(node.pictures) // 8))
        seen = label.pictures[np.array(node.pictures, dtype=np.int64)].astype(np.float64)
        first = old if number < old else 0
        found, bits = beaters(seen @ texts[first:].T, seen @ texts[number], first, number, width)
        if number < old and before is not None:
            known = before[0].of_node(number)
            mine = known.models == before[1]
            found, bits = np.append(known.beaters[mine], found), np.append(known.masks[mine], bits, axis=0)
        yield Entries(found, np.zeros(len(found), dtype=np.int64), bits)


def leaves(graph: SemanticGraph) -> NDArray[np.int64]:
    """The numbers of the nodes with pictures that have no hyponym with pictures: no two of them mean the same."""
    seen = {node.id for node in graph.nodes if node.pictures}
    inner = {parent for node in graph.nodes if node.id in seen for parent in graph.ancestors(node.id)}
    numbers = [number for number, node in enumerate(graph.nodes) if node.id in seen and node.id not in inner]
    return np.array(numbers, dtype=np.int64)


def beaters(
    scores: NDArray[np.float64], own: NDArray[np.float64], first: int, number: int, width: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """The nodes that beat a node on some of its pictures, ascending, and a bit for each picture.

    `scores` are of its pictures with the texts of the nodes from `first` on, `own` with its own text.
    """
    lower = max(0, number - first)
    beats = scores > own[:, None]
    beats[:, :lower] |= scores[:, :lower] == own[:, None]
    if first <= number:
        beats[:, number - first] = False
    found = np.flatnonzero(beats.any(axis=0))
    bits = np.zeros((len(found), width), dtype=np.uint8)
    packed = np.packbits(beats[:, found], axis=0, bitorder="little")
    bits[:, : len(packed)] = packed.T
    return found + first, bits


def _check(label: Label, graph: SemanticGraph, before: tuple[Segment, int] | None) -> None:
    if label.key.graph != graph.version or len(label.texts) != len(graph.nodes):
        raise RecipeError(
            f"the label is on graph version {label.key.graph[:12]}, but the graph {graph.name!r} is "
            f"{graph.version[:12]}; make the label on this graph first"
        )
    if before is None:
        return
    segment, number = before
    old, new = segment.key(number), label.key
    if (old.model, old.preprocess, old.text, old.templates) != (new.model, new.preprocess, new.text, new.templates):
        raise RecipeError("the index before is of another model, text or pre-processing; build the index anew")
    if graph.version_of_first(segment.nodes, segment.graph_pictures) != old.graph:
        raise RecipeError(
            f"the index before is on graph version {old.graph[:12]}, which is not the beginning of the graph "
            f"{graph.name!r}; build the index anew"
        )
