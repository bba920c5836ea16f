"""What torch.save wrote, without torch: the tree of its content, and where in the file the numbers of its tensors lie.

The file is a zip: a pickle, and a record for the numbers of each storage, plain and uncompressed. It may be a part of a
larger file. Nothing in the pickle is run (smelt.formats.shards.inert_pickle).
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from smelt.errors import CorruptFile, shortened
from smelt.files.positioned import read_at
from smelt.files.reading import open_plain
from smelt.formats import dtype as dtypes
from smelt.formats.pickle_header import LONGEST_PROGRAM, StoredTensor
from smelt.formats.shards.inert_pickle import InertReader

__all__ = ["TorchArchive", "read_archive", "read_archive_at"]

_LOCAL_HEAD = 30
"""Bytes of what stands before a record, without its name."""


@dataclass(frozen=True)
class TorchArchive:
    """The content of a file, in which a tensor is a StoredTensor, and the records of its numbers."""

    where: str
    content: Any
    records: Mapping[str, tuple[int, int]]
    """The first byte of each storage, and how many there are."""

    def place(self, tensor: StoredTensor) -> tuple[int, tuple[int, ...] | None]:
        """The first byte of a tensor's numbers, and its strides where these do not lie row after row."""
        key = getattr(tensor.storage, "key", None)
        found = self.records.get(key) if isinstance(key, str) else None
        if found is None or not isinstance(tensor.code, str) or not dtypes.is_known(tensor.code):
            raise CorruptFile(f"{self.where}: the numbers of a tensor (record {shortened(str(key))!r}) are not there")
        size = dtypes.item_size(tensor.code)
        numbers = (tensor.offset, *tensor.shape, *tensor.stride)  # a pickle may have set them after they were checked
        if len(tensor.shape) != len(tensor.stride) or not all(type(n) is int and 0 <= n < 1 << 60 for n in numbers):
            raise CorruptFile(f"{self.where}: a tensor of shape {tensor.shape} has strides {tensor.stride}")
        count = math.prod(tensor.shape)
        last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride, strict=True)) if count else -1
        if (tensor.offset + last + 1) * size > found[1]:
            raise CorruptFile(
                f"{self.where}: a tensor of shape {tensor.shape} needs more than the {found[1]:,} bytes of its record; "
                "it is damaged"
            )
        return found[0] + tensor.offset * size, None if _in_rows(tensor) else tensor.stride


def _in_rows(tensor: StoredTensor) -> bool:
    step = 1
    for size, stride in zip(reversed(tensor.shape), reversed(tensor.stride), strict=True):
        if size > 1 and stride != step:
            return math.prod(tensor.shape) <= 1
        step *= size
    return True


def read_archive(path: Path, known: Mapping[str, Callable[..., Any]] | None = None) -> TorchArchive:
    """A whole file."""
    with open_plain(path) as file:
        size = file.seek(0, io.SEEK_END)
        return read_archive_at(str(path), file.fileno(), 0, size, known)


def read_archive_at(
    where: str, descriptor: int, start: int, length: int, known: Mapping[str, Callable[..., Any]] | None = None
) -> TorchArchive:
    """A part of an open file; `where` is what errors begin with."""
    window: IO[bytes] = io.BufferedReader(_Window(descriptor, start, length))
    try:
        if not zipfile.is_zipfile(window):
            raise CorruptFile(
                f"{where}: is no file of torch.save, or cut off; it may have been copied while it was written"
            )
        with zipfile.ZipFile(window) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            if len(entries) != len(archive.infolist()):
                raise CorruptFile(f"{where}: a record stands twice in its zip")
            program = next((one for name, one in entries.items() if name.endswith("/data.pkl")), None)
            if program is None or program.file_size > LONGEST_PROGRAM:
                raise CorruptFile(f"{where}: a zip without a data.pkl, or with one that is too long")
            root = program.filename.removesuffix("data.pkl")
            order = entries.get(f"{root}byteorder")
            if order is not None and order.file_size < 16 and archive.read(order).strip() != b"little":
                raise CorruptFile(f"{where}: was saved on a machine with another order of bytes, which is not read")
            content = InertReader(io.BytesIO(archive.read(program)), known).load()
        prefix = f"{root}data/"
        records = {
            name.removeprefix(prefix): (start + _first_byte(where, window, one, length), one.file_size)
            for name, one in entries.items()
            if name.startswith(prefix)
        }
    except CorruptFile:
        raise
    except Exception as error:  # a damaged pickle is a damaged program: it stumbles over anything
        raise CorruptFile(
            f"{where}: cannot be read without running it ({shortened(str(error) or repr(error))})"
        ) from None
    return TorchArchive(where, content, records)


def _first_byte(where: str, window: IO[bytes], entry: zipfile.ZipInfo, length: int) -> int:
    """Where a record's content begins, behind a head of its own."""
    window.seek(entry.header_offset)
    head = window.read(_LOCAL_HEAD)
    if len(head) < _LOCAL_HEAD or head[:4] != b"PK\x03\x04":
        raise CorruptFile(f"{where}: the zip's directory does not fit its records; it is damaged")
    if entry.compress_type != zipfile.ZIP_STORED:
        raise CorruptFile(f"{where}: its numbers are compressed, which is not read; save it again with torch.save")
    name, extra = struct.unpack("<HH", head[26:30])
    begin: int = entry.header_offset + _LOCAL_HEAD + name + extra
    if begin + entry.file_size > length:
        raise CorruptFile(f"{where}: the record {shortened(entry.filename)!r} goes beyond the end; it is cut off")
    return begin


class _Window(io.RawIOBase):
    """A part of an open file, as a file."""

    def __init__(self, descriptor: int, start: int, length: int):
        self._descriptor, self._start, self._length, self._at = descriptor, start, length, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = max(0, offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._length}[whence])
        return self._at

    def tell(self) -> int:
        return self._at

    def readinto(self, room: Any) -> int:
        view = memoryview(room).cast("B")
        content = read_at(self._descriptor, max(0, min(len(view), self._length - self._at)), self._start + self._at)
        view[: len(content)] = content
        self._at += len(content)
        return len(content)
