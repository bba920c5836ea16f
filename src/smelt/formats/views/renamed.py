"""A Source under other names: each of its tensors is a run of a stored one, as it lies there or transposed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.formats.dtype import item_size, torch_dtype
from smelt.formats.source import Source, StoredCodes, StoredRange, TensorInfo, part_of

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["Piece", "RenamedSource", "renamed"]


@dataclass(frozen=True)
class Piece:
    """Where a renamed tensor's numbers are."""

    stored: str
    start: int
    info: TensorInfo
    transposed: bool = False


class RenamedSource(Source):
    """`inner` as the tensors of `pieces`. Closing it closes `inner` too."""

    def __init__(self, inner: Source, pieces: Mapping[str, Piece], note: str | None = None):
        self._inner, self._pieces = inner, pieces
        self.label, self.files, self.folder, self.beside = inner.label, inner.files, inner.folder, inner.beside
        self.arranged_as(inner)
        self.tensors = {name: piece.info for name, piece in pieces.items()}
        self.notes = (*inner.notes, note) if note else inner.notes
        self.codes = {name: self._codes(piece) for name, piece in pieces.items() if piece.stored in inner.codes}
        self._lock = threading.Lock()
        self._whole: dict[str, Tensor] = {}

    def read(self, key: str, start: int, out: Tensor) -> None:
        piece = self._pieces[key]
        if not piece.transposed:
            self._inner.read(piece.stored, piece.start + start, out)
        elif out.numel() == piece.info.count:
            out.view(piece.info.shape).copy_(self._turned(piece, out.dtype))
        else:
            out.copy_(self._kept(key, piece)[start : start + out.numel()])

    def has_bytes(self, key: str) -> bool:
        return not self._pieces[key].transposed and self._inner.has_bytes(self._pieces[key].stored)

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        piece = self._pieces[key]
        self._inner.read_bytes(piece.stored, piece.start + start, out)

    def read_from(self, key: str) -> Iterator[StoredRange]:
        piece = self._pieces[key]
        yield from part_of(self._inner, piece.stored, piece.start, piece.info.count)

    def stored_at(self, key: str) -> tuple[int, int] | None:
        piece = self._pieces[key]
        found = None if piece.transposed else self._inner.stored_at(piece.stored)
        return found and (found[0], found[1] + piece.start * item_size(self.tensors[key].dtype))

    def close(self) -> None:
        self._inner.close()

    def files_inside(self) -> Mapping[str, bytes]:
        return self._inner.files_inside()

    def on_device(self, key: str) -> Tensor | None:
        piece = self._pieces[key]
        found = self._inner.on_device(piece.stored)
        if found is None:
            return None
        found = found[piece.start : piece.start + piece.info.count]
        return found.view(piece.info.shape[::-1]).t().reshape(-1) if piece.transposed else found

    def _codes(self, piece: Piece) -> StoredCodes:
        """A part of a tensor has its share of the bytes."""
        whole = self._inner.codes[piece.stored]
        return StoredCodes(whole.how, whole.nbytes * piece.info.count // self._inner.tensors[piece.stored].count)

    def _turned(self, piece: Piece, dtype: torch.dtype) -> Tensor:
        """All of a transposed piece, as a view of what was read."""
        import torch

        stored = torch.empty(piece.info.count, dtype=dtype)
        self._inner.read(piece.stored, piece.start, stored)
        return stored.view(piece.info.shape[::-1]).t()

    def _kept(self, key: str, piece: Piece) -> Tensor:
        """What is read a part at a time is small (a projection): it is turned once and kept."""
        with self._lock:
            if key not in self._whole:
                self._whole[key] = self._turned(piece, torch_dtype(piece.info.dtype)).reshape(-1)
            return self._whole[key]


def renamed(source: Source, name_of: Callable[[str], str]) -> RenamedSource:
    """Every tensor of a Source, whole, under the name that a function gives it; tied names too."""
    view = RenamedSource(source, {name_of(name): Piece(name, 0, info) for name, info in source.tensors.items()})
    view.tied = {name_of(name): name_of(twin) for name, twin in source.tied.items()}
    return view
