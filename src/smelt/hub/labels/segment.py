"""A segment: the indexes of some models on one graph, in memory or mapped from a file (segment_file.py says how)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import CorruptFile, RecipeError
from smelt.hub.labels.label import LabelKey
from smelt.hub.labels.segment_file import SPARE, map_columns, pair_type, verify_file, write_columns

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["MOST", "Entries", "Segment", "assembled", "save_segment"]

MOST = 1 << 12
"""Models of one file, at most: what a merge writes at once is some tens of gigabytes on the paper's graph."""


@dataclass(frozen=True, eq=False)
class Entries:
    """What a segment holds of one node: who beats it, in which model, on which pictures. Ascending by beater, model."""

    beaters: NDArray[np.int64]
    models: NDArray[np.int64]
    masks: NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Segment:
    """The columns of a segment."""

    graph_pictures: int
    digests: NDArray[np.uint8]
    keys: NDArray[np.uint8]
    key_ends: NDArray[np.uint64]
    standing: NDArray[np.uint32]
    numbered: NDArray[np.uint32]
    pictures: NDArray[np.uint32]
    offsets: NDArray[np.uint64]
    entries: NDArray[np.uint64]
    pairs: NDArray[Any]
    blocks: NDArray[np.uint8]
    path: Path | None = None

    @classmethod
    def open(cls, path: Path) -> Segment:
        """A file, mapped: only what is asked for is read."""
        columns, foot = map_columns(path)
        pictures = foot.get("graph_pictures")
        if not isinstance(pictures, int) or pictures < 0:
            raise CorruptFile(f"{path}: the foot of the segment does not say how many pictures the graph has")
        found = cls(pictures, **columns, path=path)
        shapes = found.digests.shape[1] == 32 and len(found.key_ends) == found.models + 1
        shapes = shapes and len(found.standing) == found.models and found.standing.shape[1] >= found.nodes
        if not shapes or len({len(found.numbered), len(found.offsets), len(found.entries)}) > 1:
            raise found.damaged("its columns do not fit each other")
        _ = found.positions
        return found

    def verify(self) -> None:
        """Compare a file with the digest that was written into it."""
        if self.path is not None:
            verify_file(self.path)

    @property
    def models(self) -> int:
        return len(self.digests)

    @property
    def nodes(self) -> int:
        return len(self.offsets) - 1

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """How many pictures each node has."""
        numbered = self.numbered.astype(np.int64)
        sizes = numbered[1:] - numbered[:-1]
        if (sizes < 0).any() or self.numbered[0] != 0 or self.numbered[-1] != len(self.pictures):
            raise self.damaged("the pictures of its nodes lie outside of it")
        return sizes

    @cached_property
    def widths(self) -> NDArray[np.int64]:
        """How many bytes each node's masks have."""
        return np.maximum(1, -(-self.sizes // 8))

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """Where each node's blocks begin."""
        counts, pairs = np.diff(self.entries.astype(np.int64)), np.diff(self.offsets.astype(np.int64))
        found = np.concatenate([[0], np.cumsum(counts * (2 + self.widths))])
        ends = self.entries[0] == 0 and self.offsets[0] == 0 and self.offsets[-1] == len(self.pairs)
        if not ends or (counts < 0).any() or (pairs < 0).any() or found[-1] + SPARE != len(self.blocks):
            raise self.damaged("its lists lie outside of it")
        return found

    def key(self, number: int) -> LabelKey:
        """The key of a model's label."""
        first, last = int(self.key_ends[number]), int(self.key_ends[number + 1])
        return LabelKey.parse(self.keys[first:last].tobytes().decode(errors="replace"), str(self.path or "the index"))

    @cached_property
    def names(self) -> list[str]:
        """The digests of the labels."""
        text = np.ascontiguousarray(self.digests).tobytes().hex()
        return [text[first : first + 64] for first in range(0, len(text), 64)]

    def bounds(self, node: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """A node's pairs, and where the entries of each begin and the last end."""
        pairs = self.pairs[int(self.offsets[node]) : int(self.offsets[node + 1])]
        count = int(self.entries[node + 1] - self.entries[node])
        starts = np.append(pairs["start"].astype(np.int64), count)
        if (np.diff(starts) < 0).any() or (len(pairs) and starts[0]) or (count and not len(pairs)):
            raise self.damaged("the entries of a node lie outside of it")
        return pairs, starts

    def of_node(self, node: int) -> Entries:
        """All that is known of a node."""
        pairs, starts = self.bounds(node)
        width = int(self.widths[node])
        at, models_at, masks_at = _places(starts, width)
        region = self.blocks[self.positions[node] : self.positions[node + 1]]
        models = region[models_at].astype(np.int64) | region[models_at + 1].astype(np.int64) << 8
        beaters = pairs["beater"].astype(np.int64)[at]
        if len(models) and (models.max() >= self.models or beaters.max() >= self.nodes):
            raise self.damaged("a list holds a node or a model that is not there")
        return Entries(beaters, models, region[masks_at[:, None] + np.arange(width)])

    def damaged(self, what: str) -> CorruptFile:
        return CorruptFile(f"{self.path or 'the index'}: is damaged ({what}); make its labels anew: `smelt hub label`")


def _places(starts: NDArray[np.int64], width: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """For every entry of a node: its pair, and where in the node's blocks its model and its mask lie."""
    counts = np.diff(starts)
    at = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(starts[-1]) - starts[:-1][at]
    begin = starts[:-1][at] * (2 + width)
    return at, begin + 2 * within, begin + 2 * counts[at] + width * within


def _block(found: Entries, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """A node's beaters, each one's first entry, and its blocks."""
    beaters, first = np.unique(found.beaters, return_index=True)
    starts = np.append(first, len(found.beaters)).astype(np.int64)
    _, models_at, masks_at = _places(starts, width)
    block = np.zeros(len(found.beaters) * (2 + width), dtype=np.uint8)
    block[models_at], block[models_at + 1] = found.models & 255, found.models >> 8
    block[masks_at[:, None] + np.arange(width)] = found.masks
    return beaters, starts[:-1], block


def _columns(
    keys: Sequence[LabelKey],
    standing: NDArray[np.uint32],
    numbered: NDArray[np.uint32],
    pictures: NDArray[np.uint32],
    nodes: Iterator[Entries],
    put: Callable[[Any], None],
) -> dict[str, NDArray[Any]]:
    if len(keys) > MOST:
        raise RecipeError(f"a segment has at most {MOST:,} models; got {len(keys):,}")
    widths = np.maximum(1, -(-np.diff(numbered.astype(np.int64)) // 8))
    kind = pair_type(len(widths))
    pairs: list[NDArray[Any]] = [np.zeros(0, kind)]
    offsets, entries = np.zeros((2, len(numbered)), dtype=np.uint64)
    for number, found in enumerate(nodes):
        beaters, starts, block = _block(found, int(widths[number]))
        here = np.zeros(len(beaters), kind)
        here["beater"], here["start"] = beaters, starts
        pairs.append(here)
        offsets[number + 1], entries[number + 1] = len(beaters), len(found.beaters)
        put(block.data)
    texts = [key.dump().encode() for key in keys]
    digests = b"".join(bytes.fromhex(key.digest) for key in keys)
    return {
        "digests": np.frombuffer(digests, np.uint8).reshape(len(keys), 32),
        "keys": np.frombuffer(b"".join(texts), np.uint8),
        "key_ends": np.cumsum([0, *map(len, texts)]).astype(np.uint64),
        "standing": standing,
        "numbered": numbered,
        "pictures": pictures,
        "offsets": np.cumsum(offsets, dtype=np.uint64),
        "entries": np.cumsum(entries, dtype=np.uint64),
        "pairs": np.concatenate(pairs),
    }


def assembled(
    key: LabelKey,
    styles: int,
    graph_pictures: int,
    numbered: NDArray[Any],
    pictures: NDArray[Any],
    nodes: Iterator[Entries],
) -> Segment:
    """The segment of one model, in memory, from what is known of every node; its standing is still to be found."""
    standing = np.zeros((1, len(numbered) - 1 + styles), dtype=np.uint32)
    blocks: list[bytes] = []
    columns = _columns([key], standing, numbered, pictures, nodes, lambda piece: blocks.append(bytes(piece)))
    columns["blocks"] = np.frombuffer(b"".join([*blocks, bytes(SPARE)]), np.uint8)
    return Segment(graph_pictures, **columns)  # type: ignore[arg-type]


def save_segment(
    path: Path,
    keys: Sequence[LabelKey],
    standing: NDArray[np.uint32],
    graph_pictures: int,
    numbered: NDArray[Any],
    pictures: NDArray[Any],
    nodes: Iterator[Entries],
) -> Path:
    """Write a segment, one node after the other; no more than a node and the pairs are in memory."""
    return write_columns(
        path, lambda put: _columns(keys, standing, numbered, pictures, nodes, put), {"graph_pictures": graph_pictures}
    )
