"""A Source whose tensors are put together from runs of another's: renamed, cut out of a stack, split, rows picked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.formats import dtype as dtypes
from smelt.formats.source import Source, TensorInfo

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Joined", "JoinedSource", "Run"]


@dataclass(frozen=True, slots=True)
class Run:
    """Elements of a stored tensor that follow each other."""

    stored: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class Joined:
    """One tensor: runs, one after the other."""

    shape: tuple[int, ...]
    runs: tuple[Run, ...]


class JoinedSource(Source):
    """`inner` as the tensors of `joined`. Closing it closes `inner` too."""

    def __init__(self, inner: Source, joined: Mapping[str, Joined]):
        self._inner, self._joined = inner, joined
        self.label, self.files, self.folder, self.beside = inner.label, inner.files, inner.folder, inner.beside
        self.notes = list(inner.notes)
        self.tensors = {
            name: TensorInfo(inner.tensors[one.runs[0].stored].dtype, one.shape) for name, one in joined.items()
        }

    def read(self, key: str, start: int, out: Tensor) -> None:
        flat = out.view(-1)
        for stored, first, at, count in self._touched(key, start, flat.numel()):
            self._inner.read(stored, first, flat[at : at + count])

    def has_bytes(self, key: str) -> bool:
        return all(self._inner.has_bytes(run.stored) for run in self._joined[key].runs)

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        size = dtypes.item_size(self.tensors[key].dtype)
        for stored, first, at, count in self._touched(key, start, len(out) // size):
            self._inner.read_bytes(stored, first, out[at * size : (at + count) * size])

    def _touched(self, key: str, start: int, count: int) -> Sequence[tuple[str, int, int, int]]:
        """What to read for `count` elements from `start` on: (stored, its element, the place in the room, how many)."""
        found, begin = [], 0
        for run in self._joined[key].runs:
            low, high = max(start, begin), min(start + count, begin + run.count)
            if low < high:
                found.append((run.stored, run.start + low - begin, low - start, high - low))
            begin += run.count
        return found

    def stored_at(self, key: str) -> tuple[int, int] | None:
        runs = self._joined[key].runs
        found = self._inner.stored_at(runs[0].stored) if len(runs) == 1 else None
        return found and (found[0], found[1] + runs[0].start * dtypes.item_size(self.tensors[key].dtype))

    def close(self) -> None:
        self._inner.close()
