"""Which sub-folders of a model's folder are parts of the model, by the note at its top.

modules.json        of sentence-transformers: the modules, one after the other (1_Pooling, 2_Dense)
model_index.json    of diffusers: the components by name (unet, vae, text_encoder, scheduler, tokenizer ...)

An odd note names no folder here; who opens the model refuses it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from smelt.files.reading import read_json

__all__ = ["MODEL_INDEX", "MODULES", "PartFolder", "part_folders"]

MODULES, MODEL_INDEX = "modules.json", "model_index.json"


@dataclass(frozen=True)
class PartFolder:
    """A sub-folder that a note names."""

    name: str
    own_code: bool
    """Whether the class that loads it is one of the model's own, whose code lies in the folder."""


def part_folders(folder: Path) -> list[PartFolder]:
    """Those that lie in the folder itself."""
    found = [*_modules(folder), *_components(folder)]
    return [part for part in found if part.name and part.name not in (".", "..")]


def _modules(folder: Path) -> Iterator[PartFolder]:
    listed = read_json(folder / MODULES) if (folder / MODULES).is_file() else []
    for one in listed if isinstance(listed, list) else []:
        if isinstance(one, dict):
            own = not str(one.get("type", "")).startswith("sentence_transformers.")
            yield PartFolder(str(one.get("path", "")).split("/")[0], own)


def _components(folder: Path) -> Iterator[PartFolder]:
    listed = read_json(folder / MODEL_INDEX) if (folder / MODEL_INDEX).is_file() else {}
    for name, entry in listed.items() if isinstance(listed, dict) else ():
        if isinstance(entry, list) and len(entry) == 2 and all(isinstance(word, str) for word in entry):
            yield PartFolder(name.split("/")[0], (folder / name / f"{entry[0]}.py").is_file())
