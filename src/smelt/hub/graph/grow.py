"""Growing a graph: new nodes get the numbers after the old ones, equal pictures become one, hypernyms draw theirs.

A hypernym draws from its descendants evenly over its children, and each child's share evenly over the grandchildren,
and so on: every node has an order of pictures, in which its own and those of each child take turns. Which of a node's
own come first is a matter of its place (seed and id), not of the moment.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import RecipeError
from smelt.hub.graph.checks import children_first, faults
from smelt.hub.graph.graph import MOST, NewNode, Node, Picture, hash_pixels

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.graph.files import Shelf

__all__ = ["drawn_from_descendants", "grown"]


def grown(
    nodes: tuple[Node, ...], pictures: tuple[Picture, ...], shelf: Shelf, new: Sequence[NewNode]
) -> tuple[list[Node], list[Picture], Shelf]:
    """The nodes and pictures of the larger graph, and a shelf with all of its pictures."""
    gallery = _Gallery(pictures, shelf)
    with ThreadPoolExecutor(os.cpu_count() or 1, "smelt-graph") as pool:
        every = [(node.id, *picture) for node in new for picture in node.pictures]
        files = {content: one for one in every if isinstance(content := one[3], Path)}  # nodes share some
        known = dict(zip(files, pool.map(_hash, files.values()), strict=True))
        hashes = (known[one[3]] if isinstance(one[3], Path) else _hash(one) for one in every)
        added = [
            Node(
                node.id,
                node.name,
                tuple(node.names) or (node.name,),
                node.definition,
                tuple(node.parents),
                tuple(dict.fromkeys(gallery.number(*picture, next(hashes)) for picture in node.pictures)),
            )
            for node in new
        ]
    together = [*nodes, *added]
    drawing = {node.id for node in new if node.draws}
    if drawing and not faults(together, len(gallery.pictures), MOST):  # a graph that is not sound is refused later
        own = {node.id: node.pictures for node in together}
        drawn = drawn_from_descendants({node.id: node.parents for node in together}, own, drawing)
        together = [_with_pictures(node, drawn.get(node.id, node.pictures)) for node in together]
    return together, gallery.pictures, gallery.shelf


def drawn_from_descendants(
    parents: Mapping[str, Sequence[str]],
    own: Mapping[str, Sequence[int]],
    drawing: set[str] | frozenset[str],
    *,
    most: int = MOST,
    seed: int = 0,
) -> dict[str, tuple[int, ...]]:
    """For each drawing node its own pictures and then its descendants', evenly over its children, `most` in all.

    `parents` are the hypernyms of every node, `own` the pictures of every node. No node gets a hypernym's picture.
    """
    children: dict[str, list[str]] = {}
    for name, above in parents.items():
        for parent in above:
            children.setdefault(parent, []).append(name)
    orders: dict[str, list[int]] = {}
    drawn = {}
    for name in children_first(parents):
        mine = _shuffled(own.get(name, ()), seed, name)
        below = [orders[child] for child in children.get(name, ())]
        orders[name] = list(_first(_turns([mine, *below]), most))
        if name in drawing:
            drawn[name] = tuple(_first([*own.get(name, ()), *_turns(below)], most))
    return drawn


class _Gallery:
    """The pictures so far, and the number of each by its content."""

    def __init__(self, pictures: Sequence[Picture], shelf: Shelf):
        self.pictures, self.shelf = list(pictures), shelf.copy()
        self._numbers = {picture: number for number, picture in enumerate(self.pictures)}

    def number(self, style: str, source: str, content: NDArray[np.uint8] | Path, sha256: str) -> int:
        picture = Picture(style, source, sha256)
        if picture not in self._numbers:
            self._numbers[picture] = len(self.pictures)
            self.pictures.append(picture)
            self.shelf.add(content)
        return self._numbers[picture]


def _hash(picture: tuple[str, str, str, NDArray[np.uint8] | Path]) -> str:
    """The hash of a new picture, which must be one."""
    from smelt.tasks.pictures.mosaic import read_picture

    node, _, source, content = picture
    pixels = read_picture(content) if isinstance(content, Path) else content
    if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3 or 0 in pixels.shape:
        raise RecipeError(
            f"a picture of {node!r} ({source}) must be bytes [height, width, 3]; "
            f"got {pixels.dtype} {list(pixels.shape)}"
        )
    return hash_pixels(pixels)


def _with_pictures(node: Node, pictures: tuple[int, ...]) -> Node:
    return Node(node.id, node.name, node.names, node.definition, node.parents, pictures)


def _shuffled(numbers: Sequence[int], seed: int, place: str) -> list[int]:
    """In an order that belongs to the place: each picture by a hash of where it stands."""
    ranks = [
        hashlib.blake2b(f"{seed}\0{place}\0{turn}".encode(), digest_size=8).digest() for turn in range(len(numbers))
    ]
    return [numbers[turn] for turn in sorted(range(len(numbers)), key=ranks.__getitem__)]


def _turns(piles: Sequence[Sequence[int]]) -> Iterator[int]:
    """One from each pile in turn, until all are empty."""
    for turn in range(max(map(len, piles), default=0)):
        for pile in piles:
            if turn < len(pile):
                yield pile[turn]


def _first(numbers: Iterator[int] | Sequence[int], most: int) -> Iterator[int]:
    """The first `most` different ones."""
    seen: set[int] = set()
    for number in numbers:
        if len(seen) == most:
            return
        if number not in seen:
            seen.add(number)
            yield number
