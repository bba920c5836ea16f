"""Opening what lies at a path: the first format that recognises it opens it, under the names that all models share."""

from __future__ import annotations

from pathlib import Path

from smelt.errors import CorruptFile, RecipeError
from smelt.formats.folder_files import identities_beside
from smelt.formats.format import OpenBase, OpenOptions, formats
from smelt.formats.source import Source
from smelt.formats.views.view import with_common_names

__all__ = ["open_path"]


def open_path(path: Path, *, allow_pickle: bool = False, open_base: OpenBase | None = None) -> Source:
    """The model at a path: a Hugging Face folder, a pack, a weights file, or what a plug-in's format knows.

    `open_base` opens the base that a pack names; without it, a base is looked for as a path seen from the pack.
    """
    found = next((one for one in formats.values() if one.recognises(path)), None)
    if found is None:
        if path.is_dir():
            raise CorruptFile(f"{path}: no model weights (*.safetensors) in this folder")
        raise RecipeError(f"{path}: not a model (a folder, or a .safetensors or .gguf file)")
    source = found.open(path, OpenOptions(open_base or _base_at_path, allow_pickle))
    source.beside = source.beside or identities_beside(source.folder)
    return with_common_names(source)


def _base_at_path(ref: str, folder: Path) -> Source:
    return open_path((folder / ref).resolve())
