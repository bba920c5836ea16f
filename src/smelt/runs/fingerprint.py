"""What numbers depend on, in a few letters for each model: its weights, and the small files around them."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from smelt.engine.pool import opened
from smelt.files.identity import file_hashes, identities
from smelt.formats.source import Source
from smelt.recipe.schema import Pool
from smelt.tasks.task import files_digest, short_digest

__all__ = ["given_fingerprint", "model_fingerprints", "source_fingerprint"]

_AROUND = (
    *("config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json"),
    *("open_clip_config.json", "adapter_config.json"),
)
"""Small files beside weights, and beside the tokenizer's, that a model's answers follow from."""


def model_fingerprints(pool: Pool, *, allow_pickle: bool = False) -> dict[str, str]:
    """Every model by name, the base among them, with a hash over the files that its numbers come from."""
    with opened(pool, allow_pickle=allow_pickle) as models:
        return {name: files_digest(source.files) for name, source in models.all.items()}


def source_fingerprint(source: Source) -> str:
    """A hash over a model's numbers and the small files around them: config, tokenizer, template, preprocessor.

    The same weights with another tokenizer or another preparation of pictures give other answers.
    """
    from smelt.models.vocabulary.files import is_tokenizer_file

    folders = dict.fromkeys([source.folder, *(Path(file).parent for file in source.files)])
    around = [
        path
        for folder in folders
        if folder is not None and folder.is_dir()
        for path in sorted(folder.iterdir())
        if path.is_file() and (path.name in _AROUND or is_tokenizer_file(path.name))
    ]
    hashes = file_hashes({**source.files, **identities(around)})
    words = [*(hashes[file] for file in source.files), *(f"{path.name} {hashes[path]}" for path in around)]
    return short_digest("\n".join(words))


def given_fingerprint(model: Any, *, allow_pickle: bool = False) -> str:
    """The same of a model as somebody gave it: nothing, a reference, a Source, or a loaded one with its own hash."""
    if model is None:
        return ""
    if isinstance(model, Source):
        return source_fingerprint(model)
    if not isinstance(model, str | Path):
        return str(getattr(model, "hash", model))
    from smelt.models.references import open_ref

    with contextlib.closing(open_ref(str(model), allow_pickle=allow_pickle)) as source:
        return source_fingerprint(source)
