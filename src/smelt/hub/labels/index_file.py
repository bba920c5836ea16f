"""The file of an index: a short head in JSON, then five columns, each beginning at a multiple of 64 bytes.

    SMELTIX1, length of the head (4 bytes), head
    offsets    uint64 [nodes + 1]      where each node's list begins
    numbered   uint32 [nodes + 1]      where each node's pictures begin
    pictures   uint32 [...]            the pictures of the nodes, by their numbers in the graph
    ids        uint16 or uint32 [...]  the lists: nodes that beat the true one on some picture, ascending
    masks      uint8 [..., width]      on which pictures: bit i of byte i // 8 is the i-th picture of the true node

Opening maps the file and looks at the head; nothing else is read before it is asked for.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import CorruptFile
from smelt.files.mapped_file import mapped_bytes
from smelt.files.reading import parse_json
from smelt.files.writing import write_file
from smelt.hub.labels.label import LabelKey

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Columns", "open_columns", "save_columns", "verify_columns"]

_MAGIC = b"SMELTIX1"
_ALIGN = 64


@dataclass(frozen=True, eq=False)
class Columns:
    """What an index consists of, in memory or mapped."""

    key: LabelKey
    graph_pictures: int
    """Pictures of the whole graph."""
    offsets: NDArray[np.uint64]
    numbered: NDArray[np.uint32]
    pictures: NDArray[np.uint32]
    ids: NDArray[np.uint16] | NDArray[np.uint32]
    masks: NDArray[np.uint8]

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        return self.offsets, self.numbered, self.pictures, self.ids, self.masks


def save_columns(columns: Columns, path: Path) -> Path:
    """Write the file, whole or not at all. Equal indexes give equal bytes."""
    body: list[bytes | memoryview] = []
    digest = hashlib.blake2b(digest_size=16)
    for array in columns.arrays:
        content = np.ascontiguousarray(array).tobytes()
        body += [content, b"\0" * (-len(content) % _ALIGN)]
    for piece in body:
        digest.update(piece)
    head = {
        "key": columns.key.dump(),
        "nodes": len(columns.offsets) - 1,
        "graph_pictures": columns.graph_pictures,
        "pictures": len(columns.pictures),
        "entries": len(columns.ids),
        "id_bytes": columns.ids.dtype.itemsize,
        "width": columns.masks.shape[1],
        "blake2b": digest.hexdigest(),
    }
    return write_file(path, [_head(head), *body])


def open_columns(path: Path) -> Columns:
    """Map a file. Refused is one whose size is not what its head says."""
    mapped, head, begin = _mapped(path)
    try:
        nodes, entries, width, id_bytes = (int(head[name]) for name in ("nodes", "entries", "width", "id_bytes"))
        pictures, of_graph = int(head["pictures"]), int(head["graph_pictures"])
        key = head["key"]
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFile(f"{path}: the head of the index is not whole ({error!r})") from None
    if id_bytes not in (2, 4) or min(nodes, entries, width, pictures, of_graph) < 0:
        raise CorruptFile(f"{path}: the head of the index has impossible numbers")
    shapes: list[tuple[str, tuple[int, ...]]] = [
        ("<u8", (nodes + 1,)),
        ("<u4", (nodes + 1,)),
        ("<u4", (pictures,)),
        (f"<u{id_bytes}", (entries,)),
        ("u1", (entries, width)),
    ]
    arrays = []
    for code, shape in shapes:
        array, begin = _column(mapped, path, code, shape, begin)
        arrays.append(array)
    if begin != len(mapped):
        raise CorruptFile(f"{path}: the index has {len(mapped):,} bytes where its head says {begin:,}")
    return Columns(LabelKey.parse(key, str(path)), of_graph, *arrays)


def verify_columns(path: Path) -> None:
    """Read the whole file and compare it with the digest in its head."""
    mapped, head, begin = _mapped(path)
    if hashlib.blake2b(mapped[begin:].data, digest_size=16).hexdigest() != head.get("blake2b"):
        raise CorruptFile(f"{path}: the index is not what was written; make it anew from the label")


def _head(content: dict[str, Any]) -> bytes:
    text = json.dumps(content, sort_keys=True).encode()
    text += b" " * (-(len(text) + len(_MAGIC) + 4) % _ALIGN)
    return _MAGIC + struct.pack("<I", len(text)) + text


def _mapped(path: Path) -> tuple[NDArray[np.uint8], dict[str, Any], int]:
    """The mapped file, its head, and where the columns begin."""
    mapped = mapped_bytes(path)
    begin = len(_MAGIC) + 4
    if len(mapped) < begin or mapped[: len(_MAGIC)].tobytes() != _MAGIC:
        raise CorruptFile(f"{path}: is not an index of labels")
    stop = begin + struct.unpack("<I", mapped[len(_MAGIC) : begin].tobytes())[0]
    head = parse_json(mapped[begin:stop].tobytes(), f"{path}, the head of the index")
    if not isinstance(head, dict):
        raise CorruptFile(f"{path}: the head of the index is no table")
    return mapped, head, stop


def _column(
    mapped: NDArray[np.uint8], path: Path, code: str, shape: tuple[int, ...], begin: int
) -> tuple[NDArray[Any], int]:
    count = int(np.prod(shape))
    size = count * np.dtype(code).itemsize
    if begin + size > len(mapped):
        raise CorruptFile(f"{path}: the index is cut off ({len(mapped):,} bytes)")
    array = mapped[begin : begin + size].view(code) if count else np.zeros(0, code)
    return array.reshape(shape), begin + size + -size % _ALIGN
