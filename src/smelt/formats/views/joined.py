"""A Source whose tensors are runs of another's one after the other: stacked experts, or experts in another order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import TYPE_CHECKING

from smelt.formats.architecture.expert_stacks import StoredTensor
from smelt.formats.dtype import item_size
from smelt.formats.source import Source, StoredCodes, StoredRange, TensorInfo, part_of
from smelt.formats.views.renamed import Piece

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["JoinedSource"]


class JoinedSource(Source):
    """`inner` as tensors that are made of `pieces` of its own. Closing it closes `inner` too."""

    def __init__(self, inner: Source, pieces: Mapping[str, tuple[TensorInfo, tuple[Piece, ...]]]):
        self._inner = inner
        self.label, self.files, self.folder, self.beside = inner.label, inner.files, inner.folder, inner.beside
        self.notes, self.tied = inner.notes, inner.tied
        self.arranged_as(inner)
        self.tensors = {name: info for name, (info, _) in pieces.items()}
        self.codes = {
            name: _codes(parts, inner) for name, (_, parts) in pieces.items() if parts[0].stored in inner.codes
        }
        self._pieces = {name: parts for name, (_, parts) in pieces.items()}
        self._ends = {name: list(accumulate(one.info.count for one in parts)) for name, parts in self._pieces.items()}

    @classmethod
    def of(cls, inner: Source, stored: Iterable[StoredTensor], name_of: Callable[[str], str]) -> JoinedSource:
        """A model put together as it is stored; tied names get theirs by a function."""
        pieces = {
            one.key: (one.info, tuple(Piece(part, 0, inner.tensors[part]) for part, _ in one.parts)) for one in stored
        }
        view = cls(inner, pieces)
        view.tied = {name_of(name): name_of(twin) for name, twin in inner.tied.items()}
        view.stored_as = None
        return view

    def read(self, key: str, start: int, out: Tensor) -> None:
        for piece, inside, begin, count in self._runs(key, start, out.numel()):
            self._inner.read(piece.stored, piece.start + inside, out[begin : begin + count])

    def has_bytes(self, key: str) -> bool:
        return all(self._inner.has_bytes(one.stored) for one in self._pieces[key])

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        size = item_size(self.tensors[key].dtype)
        for piece, inside, begin, count in self._runs(key, start, len(out) // size):
            self._inner.read_bytes(piece.stored, piece.start + inside, out[begin * size : (begin + count) * size])

    def read_from(self, key: str) -> Iterator[StoredRange]:
        for piece in self._pieces[key]:
            yield from part_of(self._inner, piece.stored, piece.start, piece.info.count)

    def stored_at(self, key: str) -> tuple[int, int] | None:
        first, *others = self._pieces[key]
        found = None if others else self._inner.stored_at(first.stored)
        return found and (found[0], found[1] + first.start * item_size(self.tensors[key].dtype))

    def close(self) -> None:
        self._inner.close()

    def files_inside(self) -> Mapping[str, bytes]:
        return self._inner.files_inside()

    def _runs(self, key: str, start: int, count: int) -> Iterator[tuple[Piece, int, int, int]]:
        """The pieces that a range of elements touches: each with its own first element, the range's, and how many."""
        pieces, ends, done = self._pieces[key], self._ends[key], 0
        number = bisect_right(ends, start)
        while done < count:
            inside = start + done - (ends[number] - pieces[number].info.count)
            here = min(count - done, pieces[number].info.count - inside)
            yield pieces[number], inside, done, here
            done, number = done + here, number + 1


def _codes(parts: tuple[Piece, ...], inner: Source) -> StoredCodes:
    """What runs of quantised tensors are in their files; each has its share of the bytes."""
    stored = [(inner.codes[one.stored], one.info.count, inner.tensors[one.stored].count) for one in parts]
    return StoredCodes(stored[0][0].how, sum(codes.nbytes * count // whole for codes, count, whole in stored))
