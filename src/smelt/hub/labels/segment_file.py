"""The file of a segment: the indexes of one or of some thousand models on one graph, node by node.

A hub's index consists of such files alone, `indexes/<number>-<random>.segment`; nothing else is written there.

- Every file is written once and never changed. A label adds a file; eight files of like size become one, and then the
  eight go. So a hub has some tens of them, whatever its number of models.
- Which models are in a file is in the file. A label's digest says what its index holds: where two files have it, either
  may be read (the higher number is). What no row of the database speaks of is not read, and goes with the next merge.
- Files come, and go, inside a write transaction of the hub's database alone. Whoever holds one (a backup) may list and
  link or copy them as if nobody else were there; a process that has mapped a file goes on reading it when it is gone.

The layout, for numbers of the machine's usual order (little-endian):

    SMELTSG1, zeros up to 64 bytes
    blocks     for each node v, for each node u that beats v in some model (a pair): the numbers of those models in the
               file, uint16 each, ascending; then a mask each, on which of v's pictures: bit i of byte i // 8 is the
               i-th picture, and v's masks have as many bytes as its pictures need. 64 zeros follow the last.
    digests    uint8 [models, 32]      of the labels' keys
    keys       uint8 [...]             the keys as JSON, one after another
    key_ends   uint64 [models + 1]     where each begins
    standing   uint32 [models, nodes + styles]   right answers on each leaf of the graph among all leaves, and on each
               style of pictures: what a model's page shows, which would otherwise read the lists of all nodes
    numbered   uint32 [nodes + 1]      where each node's pictures begin
    pictures   uint32 [...]            the pictures of the nodes, by their numbers in the graph
    offsets    uint64 [nodes + 1]      where each node's pairs begin
    entries    uint64 [nodes + 1]      how many entries (a model in a pair) lie before each node
    pairs      (beater uint16 or uint32, start uint32) [...]   u, and its first entry, counted from the node's first
    foot       JSON: the columns with place, type and shape; blake2b of all that lies before
    tail       length of the foot (8 bytes), blake2b of the foot (16), SMELTSG1

All models' values of a pair lie side by side, because a selection asks all models about few nodes: it reads the pairs
within its own nodes, and nothing else. Opening reads the foot; the rest is mapped.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from smelt.errors import CorruptFile
from smelt.files.mapped_file import mapped_bytes
from smelt.files.reading import parse_json
from smelt.files.writing import atomic_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["BLOCKS_AT", "SPARE", "foot_of", "map_columns", "pair_type", "verify_file", "write_columns"]

_MAGIC = b"SMELTSG1"
_ALIGN = 64
BLOCKS_AT = _ALIGN
"""Where the blocks begin."""
SPARE = 64
"""Bytes after the last mask, so that a whole word may be read anywhere."""
_TAIL = struct.Struct("<Q16s8s")
_SHAPES = {"digests": 2, "standing": 2}
_KINDS = {"digests": "|u1", "keys": "|u1", "standing": "<u4", "numbered": "<u4", "pictures": "<u4"} | dict.fromkeys(
    ("key_ends", "offsets", "entries"), "<u8"
)


def pair_type(nodes: int) -> np.dtype[Any]:
    """A pair of a graph with so many nodes."""
    return np.dtype([("beater", "<u2" if nodes <= 1 << 16 else "<u4"), ("start", "<u4")])


def write_columns(
    path: Path, blocks: Callable[[Callable[[Any], None]], Mapping[str, NDArray[Any]]], more: Mapping[str, Any]
) -> Path:
    """Write a file, whole or not at all; equal content gives equal bytes.

    `blocks` hands pieces of the blocks to the function that it is given, one after another, and gives the columns.
    """
    with atomic_file(path) as draft, draft.open("xb") as file:
        digest, at = hashlib.blake2b(digest_size=16), 0

        def put(piece: Any) -> None:
            nonlocal at
            file.write(piece)
            digest.update(piece)
            at += memoryview(piece).nbytes

        put(_MAGIC.ljust(BLOCKS_AT, b"\0"))
        columns = blocks(put)
        size = at - BLOCKS_AT + SPARE
        put(bytes(SPARE + -(at + SPARE) % _ALIGN))
        places: dict[str, list[Any]] = {"blocks": [BLOCKS_AT, "|u1", [size]]}
        for name, array in columns.items():
            places[name] = [at, _code(array), list(array.shape)]
            content = np.ascontiguousarray(array).tobytes()
            put(content + bytes(-len(content) % _ALIGN))
        finish(file, places, more, digest.hexdigest())
    return path


def finish(file: IO[bytes], places: Mapping[str, list[Any]], more: Mapping[str, Any], digest: str) -> None:
    """Write the foot and the tail."""
    file.write(foot_of(places, more, digest))


def foot_of(places: Mapping[str, list[Any]], more: Mapping[str, Any], digest: str) -> bytes:
    """Foot and tail of a file with these columns."""
    text = json.dumps({**more, "columns": places, "blake2b": digest}, sort_keys=True).encode()
    return text + _TAIL.pack(len(text), hashlib.blake2b(text, digest_size=16).digest(), _MAGIC)


def map_columns(path: Path) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Map a file: its columns, and what else its foot says. Refused is one that is not as its foot says."""
    mapped = mapped_bytes(path)
    foot, end = _foot(mapped, path)
    try:
        places = {name: (int(at), code, tuple(map(int, shape))) for name, (at, code, shape) in foot["columns"].items()}
        nodes = places["offsets"][2][0] - 1
        kinds = {**_KINDS, "blocks": "|u1", "pairs": _code(np.zeros(0, pair_type(nodes)))}
        sound = places.keys() >= kinds.keys() and all(
            places[name][1] == code and len(places[name][2]) == _SHAPES.get(name, 1) for name, code in kinds.items()
        )
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise CorruptFile(f"{path}: the foot of the segment is not whole ({error!r})") from None
    if not sound:
        raise CorruptFile(f"{path}: the foot of the segment names other columns than a segment has")
    types = {name: np.dtype(code) for name, code in kinds.items() if name != "pairs"} | {"pairs": pair_type(nodes)}
    columns = {}
    for name, kind in types.items():
        at, _, shape = places[name]
        size = int(np.prod(shape, dtype=object)) * kind.itemsize
        if min(at, *shape) < 0 or at % _ALIGN or at + size > end:
            raise CorruptFile(f"{path}: the segment's {name} lie outside of it; the file is cut off or damaged")
        columns[name] = mapped[at : at + size].view(kind).reshape(shape) if size else np.zeros(shape, kind)
    return columns, foot


def verify_file(path: Path) -> None:
    """Read the whole file and compare it with the digest in its foot."""
    mapped = mapped_bytes(path)
    foot, end = _foot(mapped, path)
    if hashlib.blake2b(mapped[:end].data, digest_size=16).hexdigest() != foot.get("blake2b"):
        raise CorruptFile(f"{path}: the segment is not what was written; make its labels anew")


def _code(array: NDArray[Any]) -> str:
    return array.dtype.str if array.dtype.names is None else f"{array.dtype['beater'].str}{array.dtype['start'].str}"


def _foot(mapped: NDArray[np.uint8], path: Path) -> tuple[dict[str, Any], int]:
    """What stands at the end, and where it begins."""
    if len(mapped) < BLOCKS_AT + _TAIL.size or mapped[: len(_MAGIC)].tobytes() != _MAGIC:
        raise CorruptFile(f"{path}: is not a segment of an index")
    length, digest, magic = _TAIL.unpack(mapped[-_TAIL.size :].tobytes())
    end = len(mapped) - _TAIL.size - length
    if magic != _MAGIC or end < BLOCKS_AT:
        raise CorruptFile(f"{path}: the segment is cut off ({len(mapped):,} bytes)")
    text = mapped[end : end + length].tobytes()
    if hashlib.blake2b(text, digest_size=16).digest() != digest:
        raise CorruptFile(f"{path}: the foot of the segment is damaged")
    foot = parse_json(text, f"{path}, the foot of the segment")
    if not isinstance(foot, dict):
        raise CorruptFile(f"{path}: the foot of the segment is no table")
    return foot, end
