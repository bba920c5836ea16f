"""The files of one GGUF model: one, or the numbered parts that it was split into (NAME-00001-of-00003.gguf).

In: the path of any part. Out: one header for all, and the bytes of a tensor. The first part has the metadata; each has
tensors of its own, and says how many parts there are.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile
from smelt.files.hashing.input_hashes import note_read
from smelt.files.positioned import BINARY, fill
from smelt.formats.gguf.header import GGUFHeader, GGUFTensor, check_tensors, read_gguf_header
from smelt.formats.gguf.types import TYPES

if TYPE_CHECKING:
    from smelt.formats.gguf.names import Origin

__all__ = ["GGUFParts", "models_among", "parts_of"]

_PART = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.gguf$")


def parts_of(path: Path) -> list[Path]:
    """All parts of the model that a file is a part of, in order; the file alone where its name is no part's."""
    found = _PART.match(path.name)
    if found is None:
        return [path]
    total = int(found["total"])
    names = [f"{found['stem']}-{number:05d}-of-{found['total']}.gguf" for number in range(1, total + 1)]
    present = set(os.listdir(path.parent)) if total > 1 else {path.name}
    missing = [name for name in names if name not in present]
    if missing or not total:
        some = ", ".join(missing[:3]) + (" ..." if missing[3:] else "")
        raise CorruptFile(f"{path}: is one of {total} parts of a model, and {some or 'all'} is missing beside it")
    return [path.parent / name for name in names]


def models_among(files: Iterable[Path]) -> list[Path]:
    """The models that these files are: the parts of a split one count once, by the first that is there."""
    seen: dict[tuple[str, str], Path] = {}
    for file in sorted(files):
        found = _PART.match(file.name)
        seen.setdefault((found["stem"], found["total"]) if found else (file.name, ""), file)
    return list(seen.values())


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a tensor lies."""

    part: int
    tensor: GGUFTensor


class GGUFParts:
    """The open files of one model. For any number of threads."""

    metadata: Mapping[str, Any]
    """That of the first part."""
    tensors: Mapping[str, GGUFTensor]
    """Of all parts; offsets are within the tensor's own."""

    def __init__(self, path: Path):
        self.paths = parts_of(path)
        headers = [read_gguf_header(one) for one in self.paths]
        _check_counts(self.paths, headers)
        self._places: dict[str, _Place] = {}
        for number, (one, header) in enumerate(zip(self.paths, headers, strict=True)):
            if twice := header.tensors.keys() & self._places.keys():
                raise CorruptFile(f"{one}: the tensor {min(twice)!r} stands in another part of this model too")
            self._places |= {name: _Place(number, tensor) for name, tensor in header.tensors.items()}
        self._headers = headers
        self.metadata = headers[0].metadata
        self.tensors = {name: place.tensor for name, place in self._places.items()}
        self._descriptors: list[int] = []

    def check(self) -> None:
        """Refuse tensors of unknown types, and those that do not lie in their file as it says."""
        for path, header in zip(self.paths, self._headers, strict=True):
            check_tensors(path, header)

    def types_of(self, origin: Origin) -> str:
        """How a tensor of the model is stored; where it is made of several, how each of them is."""
        return ", ".join(dict.fromkeys(TYPES[self.tensors[name].type].name for name in origin.names))

    def bytes_of(self, origin: Origin) -> int:
        """Those that are a tensor's own of what it is stored in."""
        stored = [self.tensors[name] for name in origin.names]
        whole = sum(math.prod(one.shape) for one in stored)
        return sum(one.nbytes for one in stored) * math.prod(origin.shape) // max(1, whole)

    def open(self) -> None:
        self._descriptors = [os.open(path, os.O_RDONLY | BINARY) for path in self.paths]

    def fill(self, name: str, position: int, room: memoryview) -> None:
        """Fill the room with the bytes of a tensor from this one on."""
        place = self._places[name]
        if not self._descriptors:
            raise ValueError(f"{self.paths[0]} is closed")
        descriptor, at = self._descriptors[place.part], place.tensor.offset + position
        if not fill(descriptor, room, at):
            raise CorruptFile(f"{self.paths[place.part]}: ended while {name!r} was being read; the file has changed")
        note_read(descriptor, at, room)

    def stored_at(self, name: str) -> tuple[int, int]:
        """The descriptor of the tensor's file, and the place in it of its first byte."""
        place = self._places[name]
        return self._descriptors[place.part], place.tensor.offset

    def close(self) -> None:
        while self._descriptors:
            os.close(self._descriptors.pop())


def _check_counts(paths: list[Path], headers: list[GGUFHeader]) -> None:
    """Every part says how many there are and which it is; the first, or all, how many tensors the whole has."""
    for number, (path, header) in enumerate(zip(paths, headers, strict=True)):
        total = header.metadata.get("split.count", 1) or 1
        if total != len(paths):
            raise CorruptFile(
                f"{path}: says that it is one of {total} parts of a model, but its name and place make it one of "
                f"{len(paths)}; parts are called NAME-00001-of-{int(total) if type(total) is int else 0:05d}.gguf"
            )
        if len(paths) > 1 and header.metadata.get("split.no", number) != number:
            raise CorruptFile(
                f"{path}: says that it is part {header.metadata['split.no']} counted from 0, not {number}"
            )
    said, held = headers[0].metadata.get("split.tensors.count"), sum(len(header.tensors) for header in headers)
    if len(paths) > 1 and said is not None and said != held:
        raise CorruptFile(f"{paths[0]}: says that the parts hold {said} tensors, but they hold {held}")
