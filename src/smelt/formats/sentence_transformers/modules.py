"""The modules of a sentence-transformers model: what modules.json names, each with its class and its folder.

    [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
     {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]

The library has moved its classes several times, so a class is known by the last word of its type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import is_there, read_json, read_json_table
from smelt.formats.part_folders import MODULES

__all__ = ["Module", "read_modules"]

_NEEDS_CONFIG = ("Pooling", "Dense")
_BRANCHES = ("Router", "Asym")


@dataclass(frozen=True)
class Module:
    """One of them."""

    kind: str
    """The name of its class: `Transformer`, `Pooling`, `Dense`."""
    path: str
    """Its folder, seen from the model's; empty where it lies at the top."""

    def config(self, folder: Path) -> dict[str, Any]:
        """What its own config.json says; nothing where it has none."""
        file = folder / self.path / "config.json"
        return read_json_table(file) if self.path and is_there(file) else {}


def read_modules(folder: Path) -> list[Module]:
    """The modules in their order; CorruptFile where the list is damaged or leads out of the folder."""
    file = folder / MODULES
    listed = read_json(file)
    if not isinstance(listed, list) or not listed or not all(isinstance(one, Mapping) for one in listed):
        raise CorruptFile(f"{file}: is no list of modules")
    found = [_module(file, number, one) for number, one in enumerate(listed)]
    paths = [module.path for module in found]
    if (twice := next((path for path in paths if paths.count(path) > 1), None)) is not None:
        raise CorruptFile(f"{file}: two modules lie in {shortened(twice)!r}")
    for module in found:
        _check_there(folder, module)
    return found


def _module(file: Path, number: int, entry: Mapping[str, Any]) -> Module:
    kind, path = entry.get("type"), entry.get("path")
    if not isinstance(kind, str) or not kind.strip() or not isinstance(path, str):
        raise CorruptFile(f"{file}: module {number} has no type and path: {shortened(str(dict(entry)))}")
    place = Path(path)
    if place.is_absolute() or ".." in place.parts or "\\" in path or "\0" in path:
        raise CorruptFile(f"{file}: module {number} lies in {shortened(repr(path))}, which is not in this folder")
    return Module(kind.rpartition(".")[2], "" if place == Path() else place.as_posix())


def _check_there(folder: Path, module: Module) -> None:
    """Whether what a module cannot do without is there. Normalize has nothing, and often no folder."""
    if module.kind in _BRANCHES and not module.path:
        raise CorruptFile(
            f"{folder}: is a model of several branches at its top ({module.kind}), whose parts modules.json does not "
            "name; such a model is not read"
        )
    if module.kind in _NEEDS_CONFIG and not is_there(folder / module.path / "config.json"):
        raise CorruptFile(
            f"{folder}: {MODULES} names the module {module.kind} in {shortened(repr(module.path))}, "
            "but its config.json is not there"
        )
