"""Safetensors as a model: one file, or a Hugging Face folder with one or several, with or without an index.

The header is read with every check that a lying or truncated file can fail, and written. The safetensors library checks
too, but does not say where a tensor's bytes begin, which streaming needs; see docs/adr/0002. Format: 8 bytes length,
JSON {name: {dtype, shape, data_offsets}}, then the data.
"""

from __future__ import annotations

import json
import math
import os
import re
import struct
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, shortened
from smelt.files.hashing.input_hashes import note_read
from smelt.files.identity import file_identity
from smelt.files.input_file import InputFile, open_input
from smelt.files.reading import is_there, open_plain, parse_json, read_json
from smelt.files.remote.mounts import remote_file
from smelt.formats import dtype as dtypes
from smelt.formats.source import Source, StoredRange, TensorInfo
from smelt.system.process import gc_paused

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "INDEX",
    "SINGLE",
    "FileSource",
    "Header",
    "complete_shards",
    "encode_header",
    "names_of_index",
    "open_file",
    "open_folder",
    "open_named",
    "read_header",
]

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
_SHARD = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.(safetensors|bin|pt|pth)$")
_LIMIT = 100_000_000
"""No real header comes near this many bytes; the reference library draws the same line."""
_MOST_AXES = 64
_MOST_ELEMENTS = 1 << 60
"""No machine holds an exabyte; beyond, libraries overflow instead of refusing."""


@dataclass(frozen=True, slots=True)
class Header:
    tensors: Mapping[str, TensorInfo]
    offsets: Mapping[str, int]
    """Where each tensor's first byte lies in the file."""
    metadata: Mapping[str, str]


@gc_paused()
def read_header(path: Path) -> Header:
    remote = remote_file(path)
    with open_plain(path) if remote is None else remote.begin() as file:
        size = os.fstat(file.fileno()).st_size if remote is None else remote.size
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


class FileSource(Source):
    """One or several safetensors files. Reads go through `pread` into a buffer that each thread re-uses.

    Not a memory map: a file that shrinks under a map kills the process instead of raising an error, and a map
    would save a tenth of the reading time at best (docs/adr/0003).
    """

    def __init__(self, label: str, files: Sequence[Path], folder: Path | None = None):
        self.label, self.folder = label, folder
        self._where: dict[str, tuple[int, int]] = {}
        tensors: dict[str, TensorInfo] = {}
        self._buffers = threading.local()
        self.files = {path: file_identity(path) for path in files}
        self._inputs: list[InputFile] = []
        for number, path in enumerate(files):
            header = read_header(path)
            twice = tensors.keys() & header.tensors.keys()
            if twice:
                raise CorruptFile(f"{path}: {sorted(twice)[0]!r} stands in another file of this model too")
            self._inputs.append(open_input(path))
            tensors.update(header.tensors)
            self._where.update({name: (number, offset) for name, offset in header.offsets.items()})
        self.tensors = tensors
        self.metadata = header.metadata if len(files) == 1 else {}

    def read(self, key: str, start: int, out: Tensor) -> None:
        import torch

        code = self.tensors[key].dtype
        dtype = dtypes.torch_dtype(code)
        nbytes = out.numel() * dtypes.item_size(code)
        direct = out.dtype == dtype and out.is_contiguous() and out.device.type == "cpu"
        raw = out.view(torch.uint8) if direct else self._buffer(nbytes)[:nbytes]
        self.read_bytes(key, start, raw.numpy().data)
        if not direct:
            out.copy_(raw.view(dtype))

    def has_bytes(self, key: str) -> bool:
        return True

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        number, offset = self._where[key]
        position = offset + start * dtypes.item_size(self.tensors[key].dtype)
        file = self._inputs[number]
        if not file.fill(out, position):
            raise CorruptFile(f"{file.path}: ended while {key!r} was being read; the file has changed")
        note_read(file, position, out)

    def stored_at(self, key: str) -> tuple[int, int] | None:
        number, offset = self._where[key]
        descriptor = self._inputs[number].descriptor
        return (descriptor, offset) if descriptor is not None else None

    def read_from(self, key: str) -> Iterator[StoredRange]:
        number, offset = self._where[key]
        yield StoredRange(self._inputs[number].path, offset, offset + self.tensors[key].nbytes)

    def _buffer(self, nbytes: int) -> Tensor:
        import torch

        buffer: Tensor | None = getattr(self._buffers, "bytes", None)
        if buffer is None or buffer.numel() < nbytes:
            buffer = torch.empty(max(nbytes, 1 << 18), dtype=torch.uint8)
            self._buffers.bytes = buffer
        return buffer

    def close(self) -> None:
        while self._inputs:
            self._inputs.pop().close()


def open_file(path: Path) -> Source:
    """One file; its folder is a model's where a config lies beside."""
    return FileSource(str(path), [path], path.parent if (path.parent / "config.json").exists() else None)


def open_folder(path: Path) -> Source:
    """The weights of a folder that has some."""
    found = open_named(path, SINGLE, INDEX)
    return found or FileSource(str(path), complete_shards(path, sorted(path.glob("*.safetensors"))), path)


def open_named(path: Path, single: str, index: str) -> Source | None:
    """The weights that one file of this name holds, or the shards of an index; None where the folder has neither."""
    has_index, has_single = (path / index).exists(), (path / single).exists()
    if has_index and has_single:
        raise CorruptFile(
            f"{path}: holds both {single} and {index}, so it is unclear which weights are meant; remove the stale one"
        )
    if has_index:
        return _open_indexed(path, index)
    return FileSource(str(path), [path / single], path) if has_single else None


def _open_indexed(path: Path, name: str) -> Source:
    index = read_json(path / name)
    names = names_of_index(index, str(path / name))
    places = index["weight_map"]
    missing = [one for one in names if not is_there(path / one)]
    if missing:
        raise CorruptFile(f"{path}: the index names shards that are not there: {', '.join(map(shortened, missing))}")
    source = FileSource(str(path), [path / one for one in names], path)
    absent, unlisted = sorted(places.keys() - source.tensors.keys()), sorted(source.tensors.keys() - places.keys())
    if absent or unlisted:
        source.close()
        what = f"lists {absent[0]!r}, which no shard holds" if absent else f"does not list {unlisted[0]!r}"
        raise CorruptFile(f"{path / name}: {what} ({len(absent) + len(unlisted)} such tensors)")
    return source


def names_of_index(index: Any, where: str) -> list[str]:
    """The files that an index names, each once and in order; CorruptFile where it is none."""
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not places or not all(isinstance(one, str) for one in places.values()):
        raise CorruptFile(f"{where}: has no weight_map from tensors to files")
    names = sorted(set(places.values()))
    outside = next((one for one in names if Path(one).is_absolute() or ".." in Path(one).parts), None)
    if outside:
        raise CorruptFile(f"{where}: names {shortened(outside)!r}, which is not in this folder")
    return names


def complete_shards(path: Path, files: list[Path]) -> list[Path]:
    """Shards without an index: none may be missing, and there may be only one set of them."""
    matches = [_SHARD.match(f.name) for f in files]
    sets = {(m["stem"], m["total"]) for m in matches if m}
    if not sets:
        return files
    if len(sets) > 1 or not all(matches):
        raise CorruptFile(f"{path}: holds several sets of weights ({', '.join(f.name for f in files[:6])} ...)")
    total = int(next(iter(sets))[1])
    present = {int(m["number"]) for m in matches if m}
    missing = [str(n) for n in range(1, total + 1) if n not in present]
    if missing:
        raise CorruptFile(f"{path}: {', '.join(f'{n} of {total}' for n in missing)} is missing from the shards")
    return files
