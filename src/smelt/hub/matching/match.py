"""Matching: which nodes of the graph speak for a class. In: unit vectors of captions. Out: the transfer matrix.

For every class y the K nodes whose captions are nearest are kept; V_sel is their union.

    Z[v, y] = cos(caption of v, caption of y)   if v is among the K nearest of y, else 0

Tan et al. 2025 (Model Label Learning), section 4.2. Differs from it: a similarity below zero carries nothing (Z = 0).
Ties go to the node with the lower number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import RecipeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.matching.embed import Embedder

__all__ = ["Match", "domain_style", "match", "match_similarities"]


@dataclass(frozen=True, eq=False)
class Match:
    """The nodes that were kept, and how much each says about each class."""

    selected: NDArray[np.int64]
    """Numbers of the kept nodes, ascending."""
    transfer: NDArray[np.float64]
    """Z [kept nodes, classes]."""
    nearest: tuple[tuple[tuple[int, float], ...], ...]
    """For every class its nodes' numbers and similarities, nearest first."""


def match(
    class_vectors: NDArray[np.floating],
    node_vectors: NDArray[np.floating],
    *,
    nodes: int = 5,
    among: NDArray[np.bool_] | None = None,
) -> Match:
    """Keep the `nodes` nearest nodes of every class. Both sides are unit rows of one embedder.

    `among` marks the nodes that may be kept (those with pictures); without it all may.
    """
    if class_vectors.ndim != 2 or node_vectors.ndim != 2 or class_vectors.shape[1] != node_vectors.shape[1]:
        raise RecipeError(
            f"the classes' vectors are {class_vectors.shape} but the nodes' are {node_vectors.shape}; "
            "embed both with the same embedder"
        )
    # Products in fp32 differ in their last digits with the number of rows; in fp64 and rounded they do not.
    similarities = np.round(class_vectors.astype(np.float64) @ node_vectors.astype(np.float64).T, 9)
    return match_similarities(similarities, nodes=nodes, among=among)


def match_similarities(
    similarities: NDArray[np.floating], *, nodes: int = 5, among: NDArray[np.bool_] | None = None
) -> Match:
    """The same from a table of similarities [classes, all nodes]. A graph with fewer nodes gives all it has."""
    if nodes < 1:
        raise RecipeError(f"nodes is how many nodes are kept for a class, at least 1; got {nodes}")
    similarities = similarities.astype(np.float64)
    if not np.isfinite(similarities).all():
        raise RecipeError("the similarities of classes and nodes hold NaN or infinity; the embedder is not sound")
    allowed = np.arange(similarities.shape[1]) if among is None else np.flatnonzero(among)
    if not len(similarities) or not len(allowed):
        raise RecipeError("matching needs at least one class and one node with pictures")
    order = np.argsort(-similarities[:, allowed], axis=1, kind="stable")[:, :nodes]
    kept = allowed[order]
    selected = np.unique(kept).astype(np.int64)
    rows = np.searchsorted(selected, kept)
    transfer = np.zeros((len(selected), len(similarities)))
    columns = np.arange(len(similarities))[:, None]
    transfer[rows, columns] = np.maximum(similarities[columns, kept], 0.0)
    nearest = tuple(
        tuple((int(node), float(similarities[number, node])) for node in row) for number, row in enumerate(kept)
    )
    return Match(selected, transfer, nearest)


def domain_style(domain: str, styles: Sequence[str], embedder: Embedder) -> str:
    """The style of pictures whose name is nearest to the words of a task's domain."""
    if not styles:
        raise RecipeError("the graph's pictures have no styles, so none fits the task's domain; take pictures: all")
    vectors = embedder.embed([domain, *styles]).astype("float64")
    similarities = (vectors[1:] @ vectors[0]).round(9)
    return styles[int(similarities.argmax())]
