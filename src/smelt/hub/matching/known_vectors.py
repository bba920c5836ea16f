"""Vectors of texts that come with a package, so that nobody has to compute them: one safetensors file.

    texts     the SHA-256 of every text
    vectors   a row for each, in half precision

Its metadata name the embedder by all that its vectors depend on. A file of another embedder knows nothing, nor does one
that cannot be read: both cost time only.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from smelt.errors import CorruptFile
from smelt.files.mapped_file import mapped_bytes
from smelt.files.writing import write_file
from smelt.formats.safetensors import encode_header, read_header
from smelt.formats.source import TensorInfo

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KnownVectors", "text_key", "write_vectors"]

_FORMAT = "smelt-vectors-1"
_KEY = 32


def text_key(text: str) -> bytes:
    """What a text is remembered by."""
    return hashlib.sha256(text.encode()).digest()


class KnownVectors:
    """Texts by their key, and their vectors."""

    def __init__(self, places: dict[bytes, int], rows: NDArray[np.float16]):
        self._places, self._rows = places, rows

    def __len__(self) -> int:
        return len(self._places)

    @classmethod
    def open(cls, path: Path, identity: str) -> KnownVectors:
        """Those of the embedder of this identity; none where the file is another's, damaged or not there."""
        with contextlib.suppress(CorruptFile, OSError):
            header = read_header(path)
            shapes = {name: (info.dtype, len(info.shape)) for name, info in header.tensors.items()}
            named = header.metadata.get("format"), header.metadata.get("embedder")
            if named == (_FORMAT, identity) and shapes == {"texts": ("U8", 2), "vectors": ("F16", 2)}:
                texts, vectors = header.tensors["texts"], header.tensors["vectors"]
                if texts.shape == (vectors.shape[0], _KEY):
                    content = mapped_bytes(path)
                    keys = content[header.offsets["texts"] :][: texts.count].tobytes()
                    rows = np.frombuffer(content, "<f2", vectors.count, header.offsets["vectors"])
                    places = {keys[_KEY * row :][:_KEY]: row for row in range(texts.shape[0])}
                    return cls(places, rows.reshape(vectors.shape))
        return cls({}, np.zeros((0, 0), dtype=np.float16))

    def find(self, texts: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The vectors of those texts that it knows."""
        places = {text: self._places.get(text_key(text)) for text in texts}
        return {text: self._rows[row].astype(np.float32) for text, row in places.items() if row is not None}


def write_vectors(path: Path, identity: str, texts: Sequence[str], vectors: NDArray[np.floating]) -> Path:
    """Write such a file."""
    rows = np.ascontiguousarray(vectors, dtype="<f2")
    infos = {"texts": TensorInfo("U8", (len(texts), _KEY)), "vectors": TensorInfo("F16", rows.shape)}
    head, _ = encode_header(infos, {"format": _FORMAT, "embedder": identity})
    return write_file(path, [head, b"".join(map(text_key, texts)), rows.data.cast("B")])
