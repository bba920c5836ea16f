"""Making an index from a label: score the pictures of every node with the texts of all, and note who beats it.

Where an index on the beginning of the graph is there already, its lists are taken over: they only grow at their ends,
by new nodes, since numbers are never given anew. Then the old pictures are scored with the new texts alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import RecipeError
from smelt.hub.labels.index_file import Columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.graph import SemanticGraph
    from smelt.hub.labels.label import Label

__all__ = ["beaters", "built"]


def built(label: Label, graph: SemanticGraph, before: Columns | None) -> Columns:
    """The columns of the index of a label."""
    _check(label, graph, before)
    old = len(before.offsets) - 1 if before is not None else 0
    width = max(1, -(-max((len(node.pictures) for node in graph.nodes), default=0) // 8))
    kind = np.uint16 if len(graph.nodes) <= 1 << 16 else np.uint32
    texts = label.texts.astype(np.float64)
    ids: list[NDArray[Any]] = []
    masks: list[NDArray[np.uint8]] = []
    lengths = np.zeros(len(graph.nodes) + 1, dtype=np.uint64)
    for number, node in enumerate(graph.nodes):
        seen = label.pictures[np.array(node.pictures, dtype=np.int64)].astype(np.float64)
        first = old if number < old else 0
        if number < old and before is not None:
            start, stop = int(before.offsets[number]), int(before.offsets[number + 1])
            ids.append(before.ids[start:stop].astype(kind))
            masks.append(_wider(before.masks[start:stop], width))
            lengths[number + 1] += stop - start
        found, bits = beaters(seen @ texts[first:].T, seen @ texts[number], first, number, width)
        ids.append(found.astype(kind))
        masks.append(bits)
        lengths[number + 1] += len(found)
    sizes = np.array([0, *(len(node.pictures) for node in graph.nodes)], dtype=np.uint32)
    pictures = [np.array(node.pictures, dtype=np.uint32) for node in graph.nodes]
    return Columns(
        label.key,
        len(graph.pictures),
        np.cumsum(lengths, dtype=np.uint64),
        np.cumsum(sizes, dtype=np.uint32),
        np.concatenate([np.zeros(0, dtype=np.uint32), *pictures]),
        np.concatenate([np.zeros(0, dtype=kind), *ids]),
        np.concatenate([np.zeros((0, width), dtype=np.uint8), *masks]),
    )


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


def _wider(masks: NDArray[np.uint8], width: int) -> NDArray[np.uint8]:
    out = np.zeros((len(masks), width), dtype=np.uint8)
    out[:, : masks.shape[1]] = masks
    return out


def _check(label: Label, graph: SemanticGraph, before: Columns | None) -> None:
    if label.key.graph != graph.version or len(label.texts) != len(graph.nodes):
        raise RecipeError(
            f"the label is on graph version {label.key.graph[:12]}, but the graph {graph.name!r} is "
            f"{graph.version[:12]}; make the label on this graph first"
        )
    if before is None:
        return
    old, new = before.key, label.key
    if (old.model, old.preprocess, old.text, old.templates) != (new.model, new.preprocess, new.text, new.templates):
        raise RecipeError("the index before is of another model, text or pre-processing; build the index anew")
    if graph.version_of_first(len(before.offsets) - 1, before.graph_pictures) != old.graph:
        raise RecipeError(
            f"the index before is on graph version {old.graph[:12]}, which is not the beginning of the graph "
            f"{graph.name!r}; build the index anew"
        )
