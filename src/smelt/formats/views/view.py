"""Views of an open model: under the names that all others of its kind have, and without the copy of a tied head.

A view that renames is for models stored in a layout of their own. It is registered by its name (`views["mine"] = ...`),
also by a plug-in: a module that an entry point of the group `smelt.formats` names. A view says for which types of
models and for which beginnings of names it may be the right one, and is asked about those only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from smelt.formats.folder_files import read_config
from smelt.formats.source import Source, StoredRange, equal_tensors
from smelt.registry import Registry

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["NameView", "frozen_keys", "frozen_prefix", "views", "with_common_names", "without_tied_copy"]

_HEADS = ("lm_head.weight", "language_model.lm_head.weight", "embed_out.weight", "proj_out.weight")
_SHARED = "shared.weight"
_EMBEDDINGS = (
    *("embed_tokens.weight", "wte.weight", "word_embeddings.weight", _SHARED, "embed_in.weight"),
    "backbone.embeddings.weight",
)
_TIED_UNLESS_SAID = frozenset(
    "bart blenderbot falcon_mamba gemma gemma2 gemma3 gemma3_text m2m_100 mamba marian mbart paligemma pegasus t5"
    " whisper".split()
)
"""Types of models whose heads are tied where config.json is silent, as files of transformers 4 were."""


class NameView(Protocol):
    """One layout of names."""

    @property
    def model_types(self) -> Collection[str]:
        """It is asked about models whose config.json has one of these as its `model_type`,"""

    @property
    def prefixes(self) -> tuple[str, ...]:
        """And about models with a tensor whose name begins with one of these,"""

    @property
    def suffixes(self) -> tuple[str, ...]:
        """Or ends with one of these."""

    @property
    def frozen(self) -> str | None:
        """What the names begin with that fine-tunes of such models never change; None where that is no part of them."""

    def recognises(self, config: Mapping[str, Any] | None, names: Collection[str]) -> bool:
        """Whether a model is of the kind, by its config.json (None where it has none) and its tensors' names."""

    def of(self, source: Source) -> Source:
        """A recognised model under the common names; the Source itself where it has them already."""


views: Registry[NameView] = Registry(
    "smelt.formats",
    own=lambda: {
        name: f"smelt.formats.views.{module}"
        for module, names in {
            "open_clip": ("open_clip",),
            "clip_tower": ("clip_tower",),
            "llava": ("llava",),
            "multimodal": ("tower", "qwen_vl", "mllama"),
            "sequences": ("encoder_decoder", "mamba"),
            "experts": ("experts",),
            "diffusion_file": ("diffusion_file",),
        }.items()
        for name in names
    },
    home=lambda view: type(view).__module__,
)
"""Every registered view by name."""


def with_common_names(source: Source) -> Source:
    """The Source itself, or a view of it under the common names."""
    config = read_config(source.folder)
    for view in views.values():
        if _fits(view, config, source.tensors.keys()):
            source = view.of(source)
    return source


def frozen_prefix(source: Source) -> str | None:
    """What the names of the tensors begin with that fine-tunes of this model share; None where they share none."""
    config, names = read_config(source.folder), source.tensors.keys()
    return next((view.frozen for view in views.values() if view.frozen and _fits(view, config, names)), None)


def frozen_keys(source: Source) -> list[str]:
    """The tensors that fine-tunes of this model share; none for a model of another kind."""
    prefix = frozen_prefix(source)
    return [key for key in source.tensors if key.startswith(prefix)] if prefix is not None else []


def _fits(view: NameView, config: Mapping[str, Any] | None, names: Collection[str]) -> bool:
    """Whether a view recognises a model; it is asked only where type or names make it possible."""
    kind = (config or {}).get("model_type")
    suffixes = getattr(view, "suffixes", ())  # a plug-in's view need not have them
    possible = kind in view.model_types or any(
        name.startswith(view.prefixes) or (suffixes and name.endswith(suffixes)) for name in names
    )
    return possible and view.recognises(config, names)


def without_tied_copy(source: Source) -> tuple[Source, list[str]]:
    """`source` without stored copies of a tied table or head; what differs from its twin stays, with a note."""
    notes: list[str] = []
    for pairs_of in (_tied_tables, _tied_head):
        for copy, twin, said in pairs_of(source):
            if source.tensors[copy] != source.tensors[twin]:
                continue
            if equal_tensors(source, copy, twin):
                source = HiddenTensorSource(source, copy, twin)
            elif said:
                notes.append(f"{said} {copy!r} to {twin!r}, but the file holds different numbers for them")
    return source, notes


def _tied_tables(source: Source) -> list[tuple[str, str, str]]:
    """Copies of the one table of words that encoder and decoder share, its name, and who says that they do."""
    shared = next((key for key in source.tensors if key.endswith(_SHARED)), None)
    if shared is None or (head := shared.removesuffix(_SHARED)) not in ("", "model."):
        return []
    copies = (f"{head}{part}.embed_tokens.weight" for part in ("encoder", "decoder"))
    return [(copy, shared, "models of this kind tie") for copy in copies if copy in source.tensors]


def _tied_head(source: Source) -> list[tuple[str, str, str]]:
    """The copy of a tied head, its embedding, and who says that they are tied; nobody where that is usual alone."""
    config = read_config(source.folder) or {}
    inner = config.get("text_config")
    tie = config.get("tie_word_embeddings", inner.get("tie_word_embeddings") if isinstance(inner, dict) else None)
    usual = str(config.get("model_type")) in _TIED_UNLESS_SAID
    head = next((key for key in _HEADS if key in source.tensors), None)
    embedding = next((key for key in source.tensors if key.endswith(_EMBEDDINGS)), None)
    if not (tie or (tie is None and usual)) or head is None or embedding is None:
        return []
    return [(head, embedding, "config.json ties" if tie else "")]


class HiddenTensorSource(Source):
    """A source that hides one name, which is another's tensor."""

    def __init__(self, inner: Source, hidden: str, twin: str):
        self._inner = inner
        self.label, self.files, self.folder, self.beside = inner.label, inner.files, inner.folder, inner.beside
        self.arranged_as(inner)
        self.tensors = {key: info for key, info in inner.tensors.items() if key != hidden}
        self.tied = {**inner.tied, hidden: twin}
        self.codes = {key: codes for key, codes in inner.codes.items() if key != hidden}

    def read(self, key: str, start: int, out: Tensor) -> None:
        self._inner.read(key, start, out)

    def has_bytes(self, key: str) -> bool:
        return self._inner.has_bytes(key)

    def read_bytes(self, key: str, start: int, out: memoryview) -> None:
        self._inner.read_bytes(key, start, out)

    def read_from(self, key: str) -> Iterator[StoredRange]:
        return self._inner.read_from(key)

    def stored_at(self, key: str) -> tuple[int, int] | None:
        return self._inner.stored_at(key)

    def files_inside(self) -> Mapping[str, bytes]:
        return self._inner.files_inside()

    def close(self) -> None:
        self._inner.close()
