"""A sentence-transformers folder as one model: the weights of its transformer and of every other module that has some.

The tensors of the first module that has weights keep their names, wherever it lies (older folders have it in
`0_Transformer`); those of others begin with their folder: `2_Dense.linear.weight`. A module may have parts in folders
below its own (a router's branches), which are named alike. Weights are safetensors, else a pickle.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from smelt.errors import CorruptFile
from smelt.files.reading import is_there, names_in
from smelt.formats.components import ComponentsSource
from smelt.formats.part_folders import MODULES
from smelt.formats.safetensors import INDEX, open_folder
from smelt.formats.sentence_transformers.modules import Module, read_modules
from smelt.formats.source import Component, Source

__all__ = ["PICKLE", "module_folders", "modules_without_weights", "open_sentence_transformers"]

PICKLE = "pytorch_model.bin"
_MOST_FOLDERS = 100
"""Below one module; no model has that many."""
_NEEDS_WEIGHTS = ("Dense", "Transformer", "StaticEmbedding", "CLIPModel")


def open_sentence_transformers(path: Path, *, allow_pickle: bool, open_top: Callable[[], Source]) -> Source:
    """All modules as one model; `open_top` opens the weights at the top of the folder."""
    modules = read_modules(path)
    parts: dict[str, Source] = {}
    places: dict[str, Component] = {}
    try:
        for module in modules:
            folders = module_folders(path, module)
            if not folders and module.kind in _NEEDS_WEIGHTS:
                raise CorruptFile(f"{path / module.path}: the module {module.kind} has no weights (model.safetensors)")
            for folder in folders:
                prefix = f"{folder}." if parts else ""
                parts[prefix] = _open(path / folder, allow_pickle) if folder else open_top()
                if folder:
                    places[prefix] = Component(folder)
                _check_size(path, module, parts[prefix])
        if not parts:
            raise CorruptFile(f"{path}: none of its modules has weights")
    except BaseException:
        for part in parts.values():
            part.close()
        raise
    if not places:
        return parts[""]
    return ComponentsSource(str(path), path, parts, places)


def module_folders(path: Path, module: Module) -> list[str]:
    """The folders of a module that hold weights, seen from the model's; an empty name is its top."""
    if not module.path:
        return [""] if _has_weights(path) else []
    found = []
    for number, (parent, folders, _) in enumerate(os.walk(path / module.path)):
        folders.sort()
        if _has_weights(Path(parent)):
            found.append(Path(parent).relative_to(path).as_posix())
        if number >= _MOST_FOLDERS:
            break
    return found


def modules_without_weights(path: Path) -> list[str]:
    """The folders of modules that need weights and have none, but a pickle at most."""
    if not is_there(path / MODULES):
        return []
    modules = [module for module in read_modules(path) if module.path and module.kind in _NEEDS_WEIGHTS]
    return [module.path for module in modules if not any((path / module.path).rglob("*.safetensors"))]


def _has_weights(folder: Path) -> bool:
    names = names_in(folder)
    return PICKLE in names or INDEX in names or any(name.endswith((".safetensors", ".bin")) for name in names)


def _open(folder: Path, allow_pickle: bool) -> Source:
    if is_there(folder / INDEX) or any(name.endswith(".safetensors") for name in names_in(folder)):
        return open_folder(folder)
    from smelt.formats.pickles import open_pickles

    return open_pickles(folder, [folder / PICKLE], allow=allow_pickle)


def _check_size(path: Path, module: Module, part: Source) -> None:
    """Whether a dense layer's weights have the size that its config says: the library would load them, or fail late."""
    if module.kind != "Dense" or (info := part.tensors.get("linear.weight")) is None:
        return
    config = module.config(path)
    said = (config.get("out_features"), config.get("in_features"))
    if said != info.shape:
        raise CorruptFile(
            f"{path / module.path}: its config.json says {said[1]} features in and {said[0]} out, but its weights are "
            f"{info.shape}"
        )
