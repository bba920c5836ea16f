"""Several models' tensors as one Source: each part from one place, under the names that it has in the whole.

A LLaVA is composed of its language model, its projector and its vision tower; a graft of a model that sees and reads,
and of a language model. A tensor may be given more rows than are stored: they are the mean of all others. In a head
that makes the score of an added token the mean of all scores, so that it is never the likeliest one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.errors import CorruptFile
from smelt.formats.dtype import torch_dtype
from smelt.formats.source import Source, StoredRange, TensorInfo

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["ComposedSource", "Part"]

_BLOCK = 1 << 22


@dataclass(frozen=True)
class Part:
    """A Source, and what its tensors are called here; None for those that are left out."""

    source: Source
    name_of: Callable[[str], str | None]


class ComposedSource(Source):
    """The tensors of several parts; where two have one, the later part's counts. Closing it closes all of them."""

    def __init__(self, label: str, parts: Sequence[Part], folder: Path | None, rows: Mapping[str, int], note: str):
        """`rows` says how many rows a tensor gets that is stored with fewer."""
        self.label, self.folder, self.notes = label, folder, (note,)
        self._parts = [part.source for part in parts]
        self._places: dict[str, tuple[Source, str]] = {}
        for part in parts:
            for stored in part.source.tensors:
                if (name := part.name_of(stored)) is not None:
                    self._places[name] = (part.source, stored)
        self.files = {path: seen for source in self._parts for path, seen in source.files.items()}
        self.tensors = {}
        for name, (source, stored) in self._places.items():
            info = source.tensors[stored]
            more = rows.get(name, info.shape[0] if info.shape else 0)
            if info.shape and more < info.shape[0]:
                raise CorruptFile(f"{label}: {stored!r} has {info.shape[0]} rows, more than its config has words")
            self.tensors[name] = TensorInfo(info.dtype, (more, *info.shape[1:])) if info.shape else info
        self._lock = threading.Lock()
        self._means: dict[str, Tensor] = {}

    def read(self, key: str, start: int, out: Tensor) -> None:
        source, stored = self._places[key]
        count = source.tensors[stored].count
        here = max(0, min(out.numel(), count - start))
        if here:
            source.read(stored, start, out[:here])
        if here < out.numel():
            mean = self._mean(key)
            behind = start + here - count  # how far into the added rows the rest begins
            rest = out[here:]
            at = behind % mean.numel()
            whole = mean.roll(-at).repeat(-(-rest.numel() // mean.numel()))
            rest.copy_(whole[: rest.numel()])

    def has_bytes(self, key: str) -> bool:
        return self._stored_whole(key) and self._places[key][0].has_bytes(self._places[key][1])

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        source, stored = self._places[key]
        source.read_bytes(stored, start, out)

    def read_from(self, key: str) -> Iterator[StoredRange]:
        source, stored = self._places[key]
        return source.read_from(stored)

    def stored_at(self, key: str) -> tuple[int, int] | None:
        source, stored = self._places[key]
        return source.stored_at(stored) if self._stored_whole(key) else None

    def close(self) -> None:
        for source in self._parts:
            source.close()

    def _stored_whole(self, key: str) -> bool:
        source, stored = self._places[key]
        return source.tensors[stored].shape == self.tensors[key].shape

    def _mean(self, key: str) -> Tensor:
        """The mean row, rounded to the stored format; read once, a block at a time."""
        import torch

        with self._lock:
            if key not in self._means:
                source, stored = self._places[key]
                rows, width = source.tensors[stored].shape
                at_once, total = max(1, _BLOCK // width), torch.zeros(width, dtype=torch.float64)
                for row in range(0, rows, at_once):
                    block = torch.empty(min(at_once, rows - row) * width)
                    source.read(stored, row * width, block)
                    total += block.view(-1, width).double().sum(dim=0)
                self._means[key] = (total / rows).to(torch_dtype(source.tensors[stored].dtype))
            return self._means[key]
