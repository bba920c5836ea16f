"""The language model of a model that sees and reads, taken out: the same bytes under the names of a model of texts."""

from __future__ import annotations

from collections.abc import Iterable

from smelt.errors import RecipeError
from smelt.files.reading import read_bytes
from smelt.formats.folder_files import read_config, small_files
from smelt.formats.small_files_made import folder_of
from smelt.formats.source import Source
from smelt.formats.views.renamed import Piece, RenamedSource
from smelt.models.parts import parts
from smelt.models.text_config import text_config
from smelt.recipe.model_parts import HEAD, LANGUAGE_PREFIXES

__all__ = ["TEXT_PREFIX", "language_of", "language_prefix", "words_of"]

TEXT_PREFIX = "model."
"""How the names of a model of texts begin, but for its head."""
_OF_PICTURES = ("processor", "preprocessor", "image_processor", "video_")
"""Beginnings of the small files that are about pictures."""


def language_prefix(names: Iterable[str]) -> str | None:
    """How the names of the language model inside a model begin; None where there is none inside."""
    return next((start for name in names for start in LANGUAGE_PREFIXES if name.startswith(start)), None)


def words_of(source: Source) -> dict[str, bytes]:
    """The small files beside a model that are about words: tokenizer, chat template, generation."""
    return {
        name: read_bytes(path)
        for name, path in small_files(source.folder).items()
        if name != "config.json" and not name.startswith(_OF_PICTURES)
    }


def language_of(source: Source) -> Source:
    """The language model, with the tokenizer of the whole and a config of its own."""
    prefix = language_prefix(source.tensors)
    if prefix is None:
        raise RecipeError(
            f"{source.label}: has no part 'language': no tensor begins with {' or '.join(LANGUAGE_PREFIXES)}, so it is "
            "no model that sees and reads"
        )

    def alone(name: str) -> str | None:
        if name.startswith(prefix):
            return TEXT_PREFIX + name.removeprefix(prefix)
        return name if name.startswith(HEAD) else None

    pieces = {text: Piece(name, 0, info) for name, info in source.tensors.items() if (text := alone(name)) is not None}
    note = f"the language model of {source.label}, taken out"
    part = RenamedSource(source, pieces, note)
    part.label = f"{source.label}#language"
    part.tied = {a: b for name, twin in source.tied.items() if (a := alone(name)) and (b := alone(twin))}
    config = read_config(source.folder)
    if config is not None:
        own = text_config(config, source.label)
        if f"{HEAD}weight" not in pieces:
            own["tie_word_embeddings"] = True
        part.folder = folder_of({"config.json": own}, words_of(source))
    return part


parts["language"] = language_of
