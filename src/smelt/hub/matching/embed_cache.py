"""Vectors of texts, remembered by who made them and of what text. Losing the cache costs time only.

One SQLite file for each embedder under the cache folder, so that several processes may read and write at once. A row
is the SHA-256 of the text and the numbers in fp32. A file that cannot be used is left alone and nothing is remembered.
Before the cache comes what a package knows (`known_vectors.py`): that is the same on every machine.
"""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import NumericalError
from smelt.files.cache import cached_path
from smelt.hub.matching.known_vectors import KnownVectors, text_key

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.matching.embed import Embedder

__all__ = ["CachedEmbedder"]

_AT_ONCE = 500
"""Texts in one question to the file."""


class CachedEmbedder:
    """An embedder that computes every text once. `identity` is all that its vectors depend on beside the text."""

    def __init__(
        self, inner: Embedder, identity: str, folder: Path | None = None, *, known: KnownVectors | None = None
    ):
        self.inner, self.name, self._known = inner, inner.name, known
        digest = hashlib.sha256(identity.encode()).hexdigest()
        kept = cached_path("embeddings", f"{digest[:32]}.sqlite")
        self._path = folder / kept.name if folder else kept

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Unit rows, from the cache or computed and kept."""
        wanted = list(dict.fromkeys(texts))
        if not wanted:
            return self.inner.embed([])
        found = self._known.find(wanted) if self._known else {}
        found |= self._read([text for text in wanted if text not in found])
        missing = [text for text in wanted if text not in found]
        if missing:
            fresh = self.inner.embed(missing)
            if not np.isfinite(fresh).all():
                raise NumericalError(f"the embedder {self.name} gives NaN or infinite vectors")
            found = {text: row for text, row in found.items() if len(row) == fresh.shape[1]}
            again = [text for text in wanted if text not in found and text not in set(missing)]
            found |= dict(zip(missing, fresh, strict=True))
            if again:  # remembered with another width: made by something else under this name
                found |= dict(zip(again, self.inner.embed(again), strict=True))
            self._write({text: found[text] for text in (*missing, *again)})
        return np.stack([found[text] for text in texts]).astype(np.float32)

    def _read(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        if not texts or not self._path.is_file():
            return {}
        by_key = {text_key(text): text for text in texts}
        keys, found = list(by_key), {}
        with contextlib.suppress(sqlite3.Error), self._open() as file:
            for start in range(0, len(keys), _AT_ONCE):
                part = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(part))
                for key, numbers in file.execute(f"select key, numbers from vectors where key in ({marks})", part):
                    row = np.frombuffer(numbers, dtype="<f4")
                    if abs(float(np.linalg.norm(row)) - 1) < 1e-3:  # a damaged row is made again
                        found[by_key[key]] = row
        return found

    def _write(self, rows: dict[str, NDArray[np.float32]]) -> None:
        content = [(text_key(text), row.astype("<f4").tobytes()) for text, row in rows.items()]
        with contextlib.suppress(sqlite3.Error, OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._open() as file, file:
                file.execute("create table if not exists vectors (key blob primary key, numbers blob) without rowid")
                file.executemany("insert or replace into vectors values (?, ?)", content)

    @contextlib.contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        file = sqlite3.connect(self._path, timeout=30)
        try:
            yield file
        finally:
            file.close()
