"""Tensors in pieces: each a block of a tensor, which lies row after row at a place of some file.

In: where every piece lies, in the file and in the tensor. Out: a Source that reads any run of any tensor, of each piece
only the bytes that are asked for. Whether the pieces make up the whole tensor is checked before anything is read.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import CorruptFile
from smelt.files.hashing.input_hashes import note_read
from smelt.files.identity import identities
from smelt.files.positioned import BINARY, fill
from smelt.formats import dtype as dtypes
from smelt.formats.source import Source, TensorInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["Piece", "Pieces", "ShardedSource", "check_whole", "flat_piece", "whole_piece"]

_MOST_COMPARED = 4096
"""Pieces of one tensor that are compared in pairs."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A block of a tensor. Where `strides` (in elements) are given, it does not lie row after row."""

    file: int
    position: int
    """The byte of its first element."""
    offsets: tuple[int, ...]
    """The place of its first element in the tensor."""
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    @property
    def count(self) -> int:
        return math.prod(self.sizes)


@dataclass(frozen=True, slots=True)
class Pieces:
    """One tensor. `grid` is its shape as the pieces see it: its own, or (elements,) where they are flat runs."""

    info: TensorInfo
    grid: tuple[int, ...]
    pieces: tuple[Piece, ...]


def whole_piece(file: int, position: int, info: TensorInfo, strides: tuple[int, ...] | None = None) -> Pieces:
    """A tensor in one piece."""
    grid = info.shape or (1,)
    return Pieces(info, grid, (Piece(file, position, (0,) * len(grid), grid, strides or None),))


def flat_piece(file: int, position: int, start: int, count: int) -> Piece:
    """A run of the elements of a tensor."""
    return Piece(file, position, (start,), (count,))


def check_whole(where: str, name: str, one: Pieces) -> None:
    """Refuse pieces that lie outside of the tensor, over each other, or leave a part of it out."""
    inside = all(
        len(piece.offsets) == len(piece.sizes) == len(one.grid)
        and all(
            at >= 0 and size >= 0 and at + size <= most
            for at, size, most in zip(piece.offsets, piece.sizes, one.grid, strict=True)
        )
        for piece in one.pieces
    )
    if not inside:
        raise CorruptFile(f"{where}: a piece of {name!r} lies outside of its shape {one.info.shape}")
    found = sum(piece.count for piece in one.pieces)
    if found < one.info.count:
        raise CorruptFile(
            f"{where}: {name!r} has {one.info.count:,} numbers, but its pieces hold only {found:,}; a rank is missing"
        )
    if found > one.info.count or _overlap([piece for piece in one.pieces if piece.count]):
        raise CorruptFile(f"{where}: pieces of {name!r} lie over each other; shards of two saves may be mixed")


def _overlap(pieces: Sequence[Piece]) -> bool:
    if not 1 < len(pieces) <= _MOST_COMPARED:
        return False
    starts = np.array([piece.offsets for piece in pieces])
    stops = starts + np.array([piece.sizes for piece in pieces])
    common = np.ones((len(pieces), len(pieces)), dtype=bool)
    for start, stop in zip(starts.T, stops.T, strict=True):
        common &= (start[:, None] < stop[None, :]) & (start[None, :] < stop[:, None])
    return int(common.sum()) > len(pieces)


class ShardedSource(Source):
    """Tensors in pieces over several files. A file is opened when it is first read."""

    def __init__(
        self, label: str, paths: Sequence[Path], tensors: Mapping[str, Pieces], *, beside: Sequence[Path] = ()
    ):
        """`beside` are the files that said where the pieces are."""
        self.label, self._paths = label, tuple(paths)
        self._pieces = tensors
        self.tensors = {name: one.info for name, one in tensors.items()}
        used = {piece.file for one in tensors.values() for piece in one.pieces}
        self.files = identities([*beside, *(path for number, path in enumerate(paths) if number in used)])
        self._open: dict[int, int] = {}
        self._turned: dict[Piece, memoryview] = {}
        self._lock = threading.RLock()

    def read(self, key: str, start: int, out: Tensor) -> None:
        import torch

        code = self.tensors[key].dtype
        raw = torch.empty(out.numel() * dtypes.item_size(code), dtype=torch.uint8)
        self.read_bytes(key, start, raw.numpy().data)
        out.copy_(raw.view(dtypes.torch_dtype(code)).view(out.shape))

    def has_bytes(self, key: str) -> bool:
        return True

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        one = self._pieces[key]
        size = dtypes.item_size(one.info.dtype)
        out = out.cast("B")
        stop = start + len(out) // size
        for piece in one.pieces:
            runs = list(_runs(one.grid, piece, start, stop))
            if len(runs) == 1:
                at, first, count = runs[0]
                self._copy(key, piece, first, out[(at - start) * size : (at - start + count) * size], size)
            elif runs:  # rows of a block: they follow each other in the file, so they are read at once
                begin, end = runs[0][1], runs[-1][1] + runs[-1][2]
                rows = memoryview(bytearray((end - begin) * size))
                self._copy(key, piece, begin, rows, size)
                for at, first, count in runs:
                    part = rows[(first - begin) * size : (first - begin + count) * size]
                    out[(at - start) * size : (at - start + count) * size] = part

    def placed(self, piece: Piece, key: str) -> Piece:
        """Where the numbers of a piece lie; for those that know it only when they look."""
        return piece

    def _copy(self, key: str, piece: Piece, first: int, out: memoryview, size: int) -> None:
        """The elements of a piece from the `first` on."""
        piece = self.placed(piece, key)
        if piece.strides is None:
            self._fill(piece.file, piece.position + first * size, out, key)
        else:
            out[:] = self._in_order(piece, key, size)[first * size : first * size + len(out)]

    def _in_order(self, piece: Piece, key: str, size: int) -> memoryview:
        """A piece that is stored in another order (a convolution with channels last), turned once and kept."""
        assert piece.strides is not None
        with self._lock:
            if piece not in self._turned:
                span = 1 + sum((n - 1) * step for n, step in zip(piece.sizes, piece.strides, strict=True))
                raw = np.empty(span * size, dtype=np.uint8)
                self._fill(piece.file, piece.position, raw.data, key)
                steps = (*(step * size for step in piece.strides), 1)
                turned = np.lib.stride_tricks.as_strided(raw, (*piece.sizes, size), steps)
                self._turned[piece] = np.ascontiguousarray(turned).reshape(-1).data
            return self._turned[piece]

    def _fill(self, file: int, position: int, out: memoryview, key: str) -> None:
        descriptor = self.descriptor(file)
        if not fill(descriptor, out, position):
            raise CorruptFile(f"{self._paths[file]}: ended while {key!r} was being read; the file has changed")
        note_read(descriptor, position, out)

    def descriptor(self, file: int) -> int:
        """Of an open file."""
        found = self._open.get(file)
        if found is None:
            with self._lock:
                if file not in self._open:
                    self._open[file] = os.open(self._paths[file], os.O_RDONLY | BINARY)
                found = self._open[file]
        return found

    def stored_at(self, key: str) -> tuple[int, int] | None:
        one = self._pieces[key]
        if len(one.pieces) != 1 or not one.info.count:
            return None
        piece = self.placed(one.pieces[0], key)
        return None if piece.strides is not None else (self.descriptor(piece.file), piece.position)

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])


def _runs(grid: Sequence[int], piece: Piece, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """The runs of elements [start, stop) of a tensor that lie in a piece, as one run in both: (the first element in the
    tensor, the first in the piece, how many).
    """
    if not piece.count:
        return
    # Axes after `axis` are whole, so that a run in the piece goes on through them.
    axis = max((n for n, size in enumerate(grid) if piece.sizes[n] != size), default=0)
    inner = math.prod(grid[axis + 1 :])
    length = piece.sizes[axis] * inner
    starts, first = _starts(grid, piece, axis, inner, start, stop)
    low = int(np.searchsorted(starts + length, start, "right"))
    high = int(np.searchsorted(starts, stop, "left"))
    for number in range(low, high):
        at = int(starts[number])
        begin, end = max(at, start), min(at + length, stop)
        yield begin, (first + number) * length + begin - at, end - begin


def _starts(
    grid: Sequence[int], piece: Piece, axis: int, inner: int, start: int, stop: int
) -> tuple[NDArray[np.int64], int]:
    """Where the runs of a piece begin in the tensor, and the number of the first of these among all runs; of rows
    that [start, stop) does not touch, none.
    """
    if axis == 0:
        return np.array([piece.offsets[0] * inner], dtype=np.int64), 0
    row = math.prod(grid[1:])
    low = max(piece.offsets[0], start // row)
    high = min(piece.offsets[0] + piece.sizes[0], -(-stop // row))
    starts = np.arange(low, max(low, high), dtype=np.int64) * row
    for n in range(1, axis):
        steps = (piece.offsets[n] + np.arange(piece.sizes[n], dtype=np.int64)) * math.prod(grid[n + 1 :])
        starts = np.add.outer(starts, steps).reshape(-1)
    return starts + piece.offsets[axis] * inner, (low - piece.offsets[0]) * math.prod(piece.sizes[1:axis])
