"""A Source under other names: each of its tensors is a run of a stored one, or a stored one transposed."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.engine.dtype import item_size, torch_dtype
from smelt.engine.header import TensorInfo
from smelt.engine.source import Source

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Piece", "RenamedSource"]


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
        self.tensors = {name: piece.info for name, piece in pieces.items()}
        self.notes = (*inner.notes, note) if note else inner.notes
        self._lock = threading.Lock()
        self._whole: dict[str, Tensor] = {}

    def read(self, key: str, start: int, out: Tensor) -> None:
        piece = self._pieces[key]
        if piece.transposed:
            out.copy_(self._transposed(key, piece)[start : start + out.numel()])
        else:
            self._inner.read(piece.stored, piece.start + start, out)

    def holds(self, key: str) -> bool:
        return not self._pieces[key].transposed and self._inner.holds(self._pieces[key].stored)

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        piece = self._pieces[key]
        self._inner.read_bytes(piece.stored, piece.start + start, out)

    def stored_at(self, key: str) -> tuple[int, int] | None:
        piece = self._pieces[key]
        found = None if piece.transposed else self._inner.stored_at(piece.stored)
        return found and (found[0], found[1] + piece.start * item_size(self.tensors[key].dtype))

    def close(self) -> None:
        self._inner.close()

    def _transposed(self, key: str, piece: Piece) -> Tensor:
        """What is transposed is small (a projection): it is turned once and kept."""
        import torch

        with self._lock:
            if key not in self._whole:
                rows, columns = piece.info.shape
                whole = torch.empty(rows * columns, dtype=torch_dtype(piece.info.dtype))
                self._inner.read(piece.stored, 0, whole)
                self._whole[key] = whole.view(columns, rows).t().contiguous().view(-1)
            return self._whole[key]
