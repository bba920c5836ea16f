"""The GGUF header: metadata and where each tensor lies, read with every check that a lying file can fail.

The gguf package has a reader too, but it maps the whole file into memory, takes seconds for a large vocabulary and
does not end on a list that claims to be longer than the file. Format: magic, version, the two counts, metadata
(name, type, value), tensors (name, dimensions, type, offset), then the data at an aligned position.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from smelt.errors import CorruptFile
from smelt.files.reading import open_plain
from smelt.formats.gguf.types import TYPES

__all__ = ["REMEDY", "GGUFHeader", "GGUFTensor", "check_tensors", "read_gguf_header"]

REMEDY = "a newer Smelt or gguf package may; or convert the model to Q8_0 or F16 with llama.cpp"
"""Of a type that cannot be read."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_LONGEST = 1 << 16
"""Longer lists (vocabularies, merges) are passed over: nothing about tensors stands in them."""
_PIECE = 1 << 20
_MOST_ELEMENTS = 1 << 60
"""Also of a tensor that is empty for one side of 0: libraries overflow beyond."""


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    shape: tuple[int, ...]
    """Row-major, as torch has it; GGUF writes the fastest dimension first."""
    type: int
    offset: int
    """Of its first byte in the file."""

    @property
    def nbytes(self) -> int:
        kind = TYPES[self.type]
        return math.prod(self.shape) // kind.block * kind.nbytes


@dataclass(frozen=True, slots=True)
class GGUFHeader:
    metadata: Mapping[str, Any]
    tensors: Mapping[str, GGUFTensor]


def read_gguf_header(path: Path, *, longest: int = _LONGEST) -> GGUFHeader:
    """The header; lists of more than `longest` items are None in its metadata."""
    with open_plain(path) as file:
        return _Parser(path, file, os.fstat(file.fileno()).st_size, longest).parse()


def check_tensors(path: Path, header: GGUFHeader) -> None:
    """Refuse a file whose tensors are of unknown types, lie over each other or go on past its end."""
    size, position = os.path.getsize(path), 0
    for name, tensor in sorted(header.tensors.items(), key=lambda item: item[1].offset):
        kind = TYPES.get(tensor.type)
        if kind is None:
            raise CorruptFile(f"{path}: {name!r} has the tensor type {tensor.type}, which is not known here; {REMEDY}")
        if math.prod(max(1, side) for side in tensor.shape) > _MOST_ELEMENTS:
            raise CorruptFile(f"{path}: {name!r} has the shape {tensor.shape}, which no machine holds")
        if tensor.shape[-1:] and tensor.shape[-1] % kind.block:
            raise CorruptFile(
                f"{path}: {name!r} {tensor.shape} does not divide into {kind.name} blocks of {kind.block}"
            )
        if tensor.offset < position:
            raise CorruptFile(f"{path}: {name!r} overlaps the tensor before it; the file is damaged")
        position = tensor.offset + tensor.nbytes
        if position > size:
            raise CorruptFile(f"{path}: {name!r} ends at byte {position:,} of {size:,}; the file is cut off")


class _Parser:
    def __init__(self, path: Path, file: BinaryIO, size: int, longest: int):
        self.path, self.file, self.size, self.longest = path, file, size, longest

    def parse(self) -> GGUFHeader:
        if self.file.read(4) != b"GGUF":
            raise CorruptFile(f"{self.path}: not a GGUF file (it does not begin with GGUF)")
        version = self._number("I")
        if version not in (2, 3):
            odd = "big-endian" if version and version % 65536 == 0 else f"version {version}"
            raise CorruptFile(
                f"{self.path}: {odd} GGUF is not read, only little-endian versions 2 and 3; convert it again"
            )
        tensor_count, field_count = self._number("Q"), self._number("Q")
        # The smallest metadata entry takes 13 bytes and the smallest tensor entry 24.
        if 13 * field_count + 24 * tensor_count > self.size:
            raise CorruptFile(
                f"{self.path}: {field_count:,} fields and {tensor_count:,} tensors do not fit into {self.size:,} bytes"
            )
        metadata: dict[str, Any] = {}
        for _ in range(field_count):
            name = self._string()
            if name in metadata:
                raise CorruptFile(f"{self.path}: the field {name!r} stands twice")
            metadata[name] = self._value(self._number("I"))
        entries: dict[str, GGUFTensor] = {}
        for _ in range(tensor_count):
            name, dimensions = self._string(), self._number("I")
            if name in entries:
                raise CorruptFile(f"{self.path}: the tensor {name!r} stands twice")
            if dimensions > 8:
                raise CorruptFile(f"{self.path}: {name!r} has {dimensions} dimensions; the header is damaged")
            shape = tuple(self._number("Q") for _ in range(dimensions))[::-1]
            entries[name] = GGUFTensor(shape, self._number("I"), self._number("Q"))
        alignment = metadata.get("general.alignment", 32)
        if type(alignment) is not int or alignment <= 0 or alignment & (alignment - 1):
            raise CorruptFile(f"{self.path}: the alignment {alignment!r} is not a power of two")
        start = -(-self.file.tell() // alignment) * alignment
        tensors = {name: GGUFTensor(entry.shape, entry.type, start + entry.offset) for name, entry in entries.items()}
        return GGUFHeader(metadata, tensors)

    def _take(self, count: int) -> bytes:
        if count > self.size - self.file.tell():
            raise CorruptFile(f"{self.path}: the header goes on past the end of the file; it is cut off or damaged")
        return self.file.read(count)

    def _number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self._take(struct.calcsize(code)))[0]

    def _string(self) -> str:
        return self._text(self._take(self._number("Q")))

    def _text(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise CorruptFile(f"{self.path}: a name in the header is not UTF-8; the file is damaged") from None

    def _value(self, kind: int, depth: int = 0) -> Any:
        if kind in _SCALARS:
            return self._number(_SCALARS[kind])
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY or depth > 4:
            raise CorruptFile(f"{self.path}: a field has the unknown type {kind}; the header is damaged")
        item, length = self._number("I"), self._number("Q")
        if item in _SCALARS:
            raw = self._take(length * struct.calcsize(_SCALARS[item]))
            return list(struct.unpack(f"<{length}{_SCALARS[item]}", raw)) if length <= self.longest else None
        if 8 * length > self.size:
            raise CorruptFile(f"{self.path}: a list of {length:,} items does not fit into {self.size:,} bytes")
        if item == _STRING:
            return self._strings(length)
        kept = [self._value(item, depth + 1) for _ in range(length)]
        return kept if length <= self.longest else None

    def _strings(self, length: int) -> list[str] | None:
        """A list of texts, taken out of large pieces of the file: a vocabulary and its merges are 400,000."""
        size_of, kept = struct.Struct("<Q").unpack_from, list[bytes]()
        piece, at = b"", 0
        for _ in range(length):
            if at + 8 > len(piece):
                piece, at = self._more(piece[at:], 8), 0
            size = size_of(piece, at)[0]
            if at + 8 + size > len(piece):
                piece, at = self._more(piece[at:], 8 + size), 0
            if length <= self.longest:
                kept.append(piece[at + 8 : at + 8 + size])
            at += 8 + size
        self.file.seek(at - len(piece), os.SEEK_CUR)
        return [self._text(one) for one in kept] if length <= self.longest else None

    def _more(self, rest: bytes, need: int) -> bytes:
        """A piece that begins with `rest` and has at least so many bytes."""
        left = self.size - self.file.tell()
        return rest + self._take(max(need - len(rest), min(left, _PIECE)))
