"""The safetensors header: read with every check that a lying or truncated file can fail, and written.

The safetensors library checks too, but does not say where a tensor's bytes begin, which streaming needs;
see docs/adr/0002. Format: 8 bytes length, JSON {name: {dtype, shape, data_offsets}}, then the data.
"""

from __future__ import annotations

import json
import math
import os
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import open_plain, parse_json
from smelt.formats import dtype as dtypes
from smelt.system.process import gc_paused

__all__ = ["Header", "TensorInfo", "encode_header", "read_header"]

_LIMIT = 100_000_000
"""No real header comes near this many bytes; the reference library draws the same line."""
_MOST_AXES = 64
_MOST_ELEMENTS = 1 << 60
"""No machine holds an exabyte; beyond, libraries overflow instead of refusing."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """What a header says of one tensor."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.count * dtypes.item_size(self.dtype)


@dataclass(frozen=True, slots=True)
class Header:
    tensors: Mapping[str, TensorInfo]
    offsets: Mapping[str, int]
    """Where each tensor's first byte lies in the file."""
    metadata: Mapping[str, str]


@gc_paused()
def read_header(path: Path) -> Header:
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        prefix = file.read(8)
        if len(prefix) < 8:
            raise CorruptFile(f"{path}: {size} bytes are too few for a safetensors file; it may be cut off")
        length = struct.unpack("<Q", prefix)[0]
        if length > _LIMIT:
            raise CorruptFile(f"{path}: not a safetensors file (its header would be {length:,} bytes long)")
        if 8 + length > size:
            raise CorruptFile(f"{path}: the header says {length:,} bytes but the file has {size:,}; it is cut off")
        text = file.read(length)
    entries = parse_json(text, f"{path}: not a safetensors file, its header", pairs=_no_duplicates, finite=True)
    if not isinstance(entries, dict):
        raise CorruptFile(f"{path}: not a safetensors file (its header is no table)")
    metadata = entries.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or set(map(type, metadata.values())) - {str}:
        raise CorruptFile(f"{path}: not a safetensors file (its __metadata__ is no table of words)")
    tensors = {name: _info(path, name, entry) for name, entry in entries.items()}
    _check_layout(
        path, {name: tuple(entry["data_offsets"]) for name, entry in entries.items()}, tensors, size - 8 - length
    )
    start = 8 + length
    offsets = {name: start + entry["data_offsets"][0] for name, entry in entries.items()}
    return Header(tensors, offsets, metadata)


def encode_header(tensors: Mapping[str, TensorInfo], metadata: Mapping[str, str]) -> tuple[bytes, dict[str, int]]:
    """The header's bytes and where each tensor then begins in the file, in the given order."""
    table: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    position, starts = 0, {}
    for name, info in tensors.items():
        starts[name] = position
        table[name] = {
            "dtype": info.dtype,
            "shape": list(info.shape),
            "data_offsets": [position, position + info.nbytes],
        }
        position += info.nbytes
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    head = struct.pack("<Q", len(text)) + text
    return head, {name: len(head) + start for name, start in starts.items()}


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = {sys.intern(name): value for name, value in pairs}  # models have the same names
    if len(table) != len(pairs):
        raise ValueError("a name stands twice")
    return table


def _info(path: Path, name: str, entry: Any) -> TensorInfo:
    try:
        code, shape, (begin, end) = entry["dtype"], entry["shape"], entry["data_offsets"]
        sound = isinstance(code, str) and all(type(n) is int and n >= 0 for n in (*shape, begin, end)) and begin <= end
    except (TypeError, KeyError, ValueError):
        sound = False
    if not sound:
        raise CorruptFile(f"{path}: the header's entry for {shortened(name)!r} is malformed: {shortened(str(entry))}")
    if not dtypes.is_known(code):
        raise CorruptFile(f"{path}: {shortened(name)!r} has the unknown type {shortened(code)!r}")
    info = _shared(code, tuple(shape))
    if info is None:
        raise CorruptFile(f"{path}: {shortened(name)!r} has the impossible shape {shortened(str(shape))}")
    if info.nbytes != end - begin:
        raise CorruptFile(
            f"{path}: {name!r} of shape {tuple(shape)} and type {code} needs {info.nbytes:,} bytes, "
            f"but the header gives it {end - begin:,}"
        )
    return info


@lru_cache(1 << 12)
def _shared(code: str, shape: tuple[int, ...]) -> TensorInfo | None:
    """One for all tensors that are alike: models have few kinds, and many of each. None for what no tensor can be."""
    possible = len(shape) <= _MOST_AXES and math.prod(size or 1 for size in shape) < _MOST_ELEMENTS
    return TensorInfo(code, shape) if possible else None


def _check_layout(
    path: Path, spans: Mapping[str, tuple[int, int]], tensors: Mapping[str, TensorInfo], available: int
) -> None:
    position = 0
    for name, (begin, end) in sorted(spans.items(), key=lambda item: item[1]):
        if begin != position:
            what = "overlaps the tensor before it" if begin < position else "leaves a gap before it"
            raise CorruptFile(f"{path}: {name!r} {what} (begins at {begin:,}, expected {position:,})")
        position = end
    if position > available:
        raise CorruptFile(f"{path}: {position:,} bytes of tensors are announced but only {available:,} are there")
    if position < available:
        raise CorruptFile(f"{path}: {available - position:,} bytes follow the last tensor; the file is damaged")
