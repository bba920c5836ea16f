"""Indexes as hubs kept them before, a file for each label (`labels/<digest>.index`), brought into segments.

It is done when such a hub is opened. A file that is damaged is dropped: its label counts as damaged then.

    SMELTIX1, length of the head (4 bytes), head in JSON, then five columns, each beginning at a multiple of 64 bytes:
    offsets uint64 [nodes + 1], numbered uint32 [nodes + 1], pictures uint32 [...], ids uint16 or uint32 [...],
    masks uint8 [..., width]
"""

from __future__ import annotations

import hashlib
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import CorruptFile
from smelt.files.mapped_file import mapped_bytes
from smelt.files.reading import parse_json
from smelt.hub.labels.index import Index
from smelt.hub.labels.index_build import with_standing
from smelt.hub.labels.label import LabelKey
from smelt.hub.labels.segment import Entries, assembled

if TYPE_CHECKING:
    from smelt.hub.graph.graph import SemanticGraph

__all__ = ["convert", "is_old_index"]

_MAGIC = b"SMELTIX1"
_NAME = re.compile(r"[0-9a-f]{64}\.index")


def is_old_index(path: Path) -> bool:
    """Whether a file is named as such an index was."""
    return _NAME.fullmatch(path.name) is not None and path.is_file() and not path.is_symlink()


def convert(old: Path, new: Path, graph_of: Callable[[str], SemanticGraph]) -> Path:
    """Write an old file's index as a segment; `graph_of` gives the version of the graph that it is on."""
    mapped = mapped_bytes(old)
    try:
        if mapped[: len(_MAGIC)].tobytes() != _MAGIC:
            raise ValueError("it is of another kind")
        begin = len(_MAGIC) + 4
        stop = begin + struct.unpack("<I", mapped[len(_MAGIC) : begin].tobytes())[0]
        head = parse_json(mapped[begin:stop].tobytes(), str(old))
        if hashlib.blake2b(mapped[stop:].data, digest_size=16).hexdigest() != head["blake2b"]:
            raise ValueError("it is not what was written")
        offsets, numbered, pictures, ids, masks = _columns(mapped, head, stop)
        key = LabelKey.parse(head["key"], str(old))
    except (ValueError, KeyError, TypeError, struct.error, RecursionError) as error:
        raise CorruptFile(f"{old}: cannot be read as an index ({error})") from None
    widths = np.maximum(1, -(-np.diff(numbered.astype(np.int64)) // 8))

    def of_node(node: int) -> Entries:
        first, last = int(offsets[node]), int(offsets[node + 1])
        count = last - first
        return Entries(ids[first:last].astype(np.int64), np.zeros(count, np.int64), masks[first:last, : widths[node]])

    nodes = (of_node(node) for node in range(len(widths)))
    graph = graph_of(key.graph)
    found = assembled(key, len(graph.styles), int(head["graph_pictures"]), numbered, pictures, nodes)
    return Index(with_standing(found, graph)).save(new)


def _columns(mapped: Any, head: dict[str, Any], begin: int) -> list[Any]:
    nodes, entries = int(head["nodes"]), int(head["entries"])
    shapes = [
        ("<u8", (nodes + 1,)),
        ("<u4", (nodes + 1,)),
        ("<u4", (int(head["pictures"]),)),
        (f"<u{int(head['id_bytes'])}", (entries,)),
        ("u1", (entries, int(head["width"]))),
    ]
    found = []
    for code, shape in shapes:
        size = int(np.prod(shape)) * np.dtype(code).itemsize
        found.append(mapped[begin : begin + size].view(code).reshape(shape))
        begin += size + -size % 64
    return found
