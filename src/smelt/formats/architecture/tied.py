"""Tied weights that a file stores twice. The copy is left out, so that the output stays tied and loads as it should."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.formats.architecture.config import read_config
from smelt.formats.source import Source, equal_tensors

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["without_tied_copy"]

_HEADS = ("lm_head.weight", "language_model.lm_head.weight", "embed_out.weight")
_EMBEDDINGS = ("embed_tokens.weight", "wte.weight", "word_embeddings.weight", "shared.weight", "embed_in.weight")


def without_tied_copy(source: Source) -> tuple[Source, list[str]]:
    """`source` without the stored copy of a tied head; a head that differs from its embedding stays, with a note."""
    config = read_config(source.folder) or {}
    inner = config.get("text_config")
    tie = config.get("tie_word_embeddings", inner.get("tie_word_embeddings") if isinstance(inner, dict) else None)
    head = next((key for key in _HEADS if key in source.tensors), None)
    embedding = next((key for key in source.tensors if key.endswith(_EMBEDDINGS)), None)
    if not tie or head is None or embedding is None or source.tensors[head] != source.tensors[embedding]:
        return source, []
    if not equal_tensors(source, head, embedding):
        return source, [f"config.json ties {head!r} to {embedding!r}, but the file holds different numbers for them"]
    return HiddenTensorSource(source, head, embedding), []


class HiddenTensorSource(Source):
    """A source that hides one name, which is another's tensor."""

    def __init__(self, inner: Source, hidden: str, twin: str):
        self._inner = inner
        self.label, self.files, self.folder, self.beside = inner.label, inner.files, inner.folder, inner.beside
        self.tensors = {key: info for key, info in inner.tensors.items() if key != hidden}
        self.tied = {**inner.tied, hidden: twin}

    def read(self, key: str, start: int, out: Tensor) -> None:
        self._inner.read(key, start, out)

    def has_bytes(self, key: str) -> bool:
        return self._inner.has_bytes(key)

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        self._inner.read_bytes(key, start, out)

    def stored_at(self, key: str) -> tuple[int, int] | None:
        return self._inner.stored_at(key)

    def close(self) -> None:
        self._inner.close()
