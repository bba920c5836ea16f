"""The tokenizer of a language model, from its folder or out of a GGUF file, and what is said there of a text's end."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError
from smelt.models.families.guarded_loading import GENERATION, open_generation_config, open_tokenizer

if TYPE_CHECKING:
    from smelt.models.families.model_input import ModelInput

__all__ = ["check_vocabulary", "no_tokenizer", "read_tokenizer", "tokenizer_place", "with_generation_config"]

_FILES = ("tokenizer.json", "tokenizer.model", "vocab.json")


def tokenizer_place(given: ModelInput) -> tuple[Path, str | None] | None:
    """The folder that holds a model's tokenizer, or the GGUF file in it that does; nothing where there is none.

    A module may say which folder it came from.
    """
    files = [Path(file) for file in given.source.files] if given.source is not None else []
    name = str(getattr(given.origin, "name_or_path", "") or "")
    folders = [given.folder, *(file.parent for file in files), Path(name) if name else None]
    for folder in folders:
        if folder is not None and any((folder / one).is_file() for one in _FILES):
            return folder, None
    return next(((file.parent, file.name) for file in files if file.suffix == ".gguf"), None)


def read_tokenizer(folder: Path, gguf_file: str | None = None) -> Any:
    """The tokenizer that lies in a folder, or in a GGUF file there; nothing is downloaded.

    Out of a GGUF file it comes by our own reader where that knows the way text is cut: transformers' has one way for
    all, which reads numbers after two spaces in other pieces than the model was trained on.
    """
    if gguf_file and (files := _files_in(folder / gguf_file)):
        with tempfile.TemporaryDirectory() as scratch:
            for name, text in files.items():
                Path(scratch, name).write_text(text, encoding="utf-8")
            found = open_tokenizer(Path(scratch), where=str(folder))
        found.name_or_path = str(folder / gguf_file)
        return found
    return open_tokenizer(folder, gguf_file=gguf_file)


def _files_in(path: Path) -> dict[str, str]:
    """The tokenizer's files that a GGUF file holds the content of; none where its way to cut text is not known."""
    from smelt.formats.gguf.header import read_gguf_header
    from smelt.formats.gguf.tokenizer_reader import is_known, tokenizer_files

    metadata = read_gguf_header(path).metadata
    return tokenizer_files(metadata, str(path)) if is_known(metadata) else {}


def no_tokenizer(label: str) -> RecipeError:
    """What to say where a model comes without one."""
    return RecipeError(
        f"{label}: has no tokenizer (tokenizer.json or tokenizer.model) beside its weights; "
        "copy the base model's tokenizer files there, or say with text_from which model has it"
    )


def check_vocabulary(label: str, module: Any, tokenizer: Any) -> None:
    """Refuse a tokenizer that has more tokens than the model has embeddings."""
    words = module.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > words:
        raise RecipeError(
            f"{label}: its tokenizer has {len(tokenizer)} tokens, but the model has embeddings for {words}; "
            "config, weights and tokenizer must be of one model"
        )


def with_generation_config(module: Any, folder: Path | None) -> None:
    """Have the model end its texts where its folder says: a chat model has more than one token for it."""
    if folder is not None and (folder / GENERATION).is_file():
        module.generation_config = open_generation_config(folder)
