"""Embedders: models that turn a text into one vector, stored as sentence-transformers folders.

The library itself puts one together: `modules.json` names its parts (a transformer, pooling, dense layers,
normalisation; a table of word vectors alone; a CLIP), and their folders hold the rest. A sparse encoder (SPLADE) is
stored alike, and a word in `config_sentence_transformers.json` tells it apart.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, MissingExtra, RecipeError, shortened
from smelt.files.reading import find_json_table, read_json
from smelt.files.remote_code import is_trusted, permit_code
from smelt.formats.part_folders import MODULES
from smelt.formats.sentence_transformers.settings import SETTINGS
from smelt.formats.source import Source
from smelt.models.families.embedder.model import Embedder
from smelt.models.families.embedder.overlay import overlay_weights
from smelt.models.families.family import Family, families
from smelt.models.families.model_input import ModelInput

__all__ = ["EMBEDDER", "EmbedderFamily"]

_CLASSES = ("SentenceTransformer", "SparseEncoder")
"""What the settings call a model, and the library its class."""


class EmbedderFamily(Family):
    """How embedders are known and loaded."""

    name = "embedder"
    model_kinds = frozenset({"text_matcher"})
    loaded_type = Embedder

    def recognises(self, model: ModelInput) -> bool:
        return model.folder is not None and (model.folder / MODULES).is_file() and _kind_of(model.folder) in _CLASSES

    def assemble(self, given: ModelInput, text: ModelInput, device: str, dtype: str) -> Embedder:
        """The model of a folder, read by the library that owns the format; then what a Source has of its own."""
        import torch

        folder = _folder_of(given)
        kind = _kind_of(folder)
        if kind not in _CLASSES:
            raise RecipeError(
                f"{given.label}: {SETTINGS} says it is a {shortened(kind)!r}, which gives no vectors that Smelt "
                f"compares; it knows {', '.join(_CLASSES)}"
            )
        _check_code(folder, given.label)
        with _faults(given.label), _quiet():
            library = _library()
            module = getattr(library, kind)(
                str(folder), device=device, local_files_only=True, trust_remote_code=is_trusted()
            )
            module = module.eval().requires_grad_(False)
        if given.source is not None and _comes_from_elsewhere(given.source, folder):
            overlay_weights(module, given.source, folder)
        module = module.to(getattr(torch, dtype))
        return Embedder(given.label, module, device, dtype, _hash(module.state_dict()), folder)


def _folder_of(given: ModelInput) -> Path:
    """The folder with a model's modules."""
    folder = given.folder
    if folder is None or not (folder / MODULES).is_file():
        raise RecipeError(
            f"{given.label}: has no {MODULES}, so it is not known how it makes one vector of a text; give a "
            "sentence-transformers folder"
        )
    return folder


def _comes_from_elsewhere(source: Source | None, folder: Path) -> bool:
    """Whether numbers of a model lie outside of its folder, as those of an adapter do."""
    return source is not None and any(folder.resolve() not in file.resolve().parents for file in source.files)


def _kind_of(folder: Path) -> str:
    """What the settings of a folder call the model; older ones call it nothing."""
    settings = find_json_table(folder / SETTINGS) or {}
    return str(settings.get("model_type", _CLASSES[0]))


def _check_code(folder: Path, label: str) -> None:
    """Refuse modules that are Python of the folder's own, unless that is allowed."""
    listed = read_json(folder / MODULES)
    if not isinstance(listed, list) or not all(isinstance(one, Mapping) for one in listed):
        raise CorruptFile(f"{folder / MODULES}: is no list of modules")
    own = [str(one.get("type")) for one in listed if not str(one.get("type")).startswith("sentence_transformers.")]
    if own:
        permit_code(f"{label}: its modules", ", ".join(map(shortened, own)))


def _hash(state: Mapping[str, Any]) -> str:
    """Over all numbers in float32, by name."""
    total = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        total.update(f"{name}\0{tuple(tensor.shape)}\0".encode())
        total.update(tensor.detach().float().cpu().contiguous().numpy().data)
    return total.hexdigest()


def _library() -> Any:
    try:
        import sentence_transformers
    except ImportError:
        raise MissingExtra("an embedder needs sentence-transformers: pip install 'smelt[embed]'") from None
    return sentence_transformers


@contextlib.contextmanager
def _faults(label: str) -> Iterator[None]:
    """What the library says of a folder that it cannot load, as one sentence."""
    try:
        yield
    except (MissingExtra, KeyboardInterrupt):
        raise
    except Exception as error:  # whatever its many modules raise
        reason = shortened(" ".join(str(error).split()))
        raise RecipeError(f"{label}: cannot be loaded as an embedder ({type(error).__name__}: {reason})") from error


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """The library draws bars and warns through its log; Smelt says itself how far it is."""
    loggers: Sequence[logging.Logger] = [logging.getLogger(name) for name in ("sentence_transformers", "transformers")]
    levels = [one.level for one in loggers]
    with contextlib.redirect_stderr(io.StringIO()):
        for one in loggers:
            one.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for one, level in zip(loggers, levels, strict=True):
                one.setLevel(level)


EMBEDDER = EmbedderFamily()
families[EMBEDDER.name] = EMBEDDER
