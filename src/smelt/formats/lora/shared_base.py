"""One base under several adapters: opened once, and every piece of it read once for all of them.

In: the sources of a pool, some of them adapters over the same files. Out: the same sources, over one base that
remembers the piece that each thread read last. A merge asks all models for the same piece, one after the other, so
that four of five reads, with their conversion, become a copy inside the cache. Whole matrices of large models are not
remembered: no plan counts that memory, and no cache would hold them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.formats.lora.source import LoraSource
from smelt.formats.safetensors import FileSource
from smelt.formats.source import Source, StoredRange

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["SharedSource", "share_bases"]

_MOST = 4 << 20
"""Numbers of a piece that is remembered."""


class SharedSource(Source):
    """A Source that several others read from. Closing it twice does no harm."""

    def __init__(self, inner: Source):
        self.inner = inner
        self.label, self.tensors, self.files, self.folder = inner.label, inner.tensors, inner.files, inner.folder
        self.notes, self.tied, self.beside = inner.notes, inner.tied, inner.beside
        self.arranged_as(inner)
        self._local = threading.local()

    def read(self, key: str, start: int, out: Tensor) -> None:
        import torch

        if out.dtype != torch.float32 or out.device.type != "cpu" or out.numel() > _MOST:
            self.inner.read(key, start, out)
            return
        piece = (key, start, out.numel())
        if getattr(self._local, "piece", None) == piece:
            out.copy_(self._local.values[: out.numel()])
            return
        self.inner.read(key, start, out)
        kept: Tensor | None = getattr(self._local, "values", None)
        if kept is None or kept.numel() < out.numel():
            self._local.values = kept = torch.empty(out.numel())
        kept[: out.numel()].copy_(out)
        self._local.piece = piece

    def has_bytes(self, key: str) -> bool:
        return self.inner.has_bytes(key)

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        self.inner.read_bytes(key, start, out)

    def read_from(self, key: str) -> Iterator[StoredRange]:
        return self.inner.read_from(key)

    def stored_at(self, key: str) -> tuple[int, int] | None:
        return self.inner.stored_at(key)

    def close(self) -> None:
        self.inner.close()


def share_bases(sources: Mapping[str, Source]) -> dict[str, Source]:
    """The same sources; adapters whose bases come from the same files now read one base, and so does that model."""
    shared: dict[tuple[Path, ...], SharedSource] = {}
    for source in sources.values():
        if isinstance(source, LoraSource) and source.base.files:
            one = shared.setdefault(_files(source.base), SharedSource(source.base))
            if one.inner is not source.base:
                source.base.close()
            source.base = one
    return {name: _shared(source, shared) for name, source in sources.items()}


def _shared(source: Source, shared: Mapping[tuple[Path, ...], SharedSource]) -> Source:
    """A plain model that is others' base is replaced by it; other kinds know more than their tensors and stay."""
    one = shared.get(_files(source)) if type(source) is FileSource else None
    if one is None:
        return source
    source.close()
    return one


def _files(source: Source) -> tuple[Path, ...]:
    return tuple(Path(file).resolve() for file in source.files)
