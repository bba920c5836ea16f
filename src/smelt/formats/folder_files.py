"""What comes along with the weights, so that the output loads like any model; all else in the folder is named.

config, tokenizer, processor, templates     carried, the config brought up to date
modules of a sentence-transformers model    carried: the folders that modules.json names (1_Pooling, 2_Dense), also the
                                            weights in them, as they are; a note says so
code of the model's own                     carried where its config asks for it; a note says so
everything else                             left behind and named: other formats of the weights hold the old numbers,
                                            and of a strange folder nobody knows what it is
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.files.identity import FileIdentity, identities
from smelt.files.reading import read_json
from smelt.formats.architecture.config import read_config
from smelt.formats.file_kinds import TOOL_FILES, kind_of, some_of

__all__ = ["FilesBeside", "files_beside", "identities_beside", "small_files"]

_CARRIED = (
    "config.json", "generation_config.json",
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "vocab.json", "vocab.txt", "merges.txt", "bpe_simple_vocab_16e6.txt.gz", "*.model", "*.tiktoken", "*.spm",
    "preprocessor_config.json", "processor_config.json", "image_processor_config.json",
    "video_preprocessor_config.json", "feature_extractor_config.json",
    "chat_template.json", "chat_template.jinja", "additional_chat_templates/*.jinja",
    "modules.json", "config_sentence_transformers.json", "sentence_*config.json",
)  # fmt: skip
_REPLACED = frozenset({"README.md", "manifest.json", "delta.json"})
"""What an output has of its own, or is spoken of elsewhere."""
_MOST = 1000
"""Files of a module that are looked at, about; no module has that many."""


@dataclass(frozen=True)
class FilesBeside:
    """What lies beside the weights of a model folder."""

    carried: Mapping[str, Path]
    left: tuple[str, ...]
    """What stays behind; a sub-folder of which nothing is carried is one name, with a slash at its end."""

    def notes(self, who: str, *, alone: bool = False) -> list[str]:
        """What there is to say of them where `who` gives a merge its small files, or `alone` is the whole output."""
        weights = [name for name in self.carried if kind_of(name) in ("weights", "pickle") and not alone]
        code = [name for name in self.carried if kind_of(name) == "code"]
        said: dict[str, Sequence[str]] = {
            "copied from {} as they are, and not merged": weights,
            "code of {}, carried because its config asks for it; it runs where remote code is trusted": code,
            "beside the weights of {}, and left behind": self.left,
        }
        return [f"{what.format(who)}: {some_of(names)}" for what, names in said.items() if names]


def small_files(folder: Path | None) -> Mapping[str, Path]:
    """The files beside the weights of a model folder that belong to the model, as they are."""
    return files_beside(folder).carried


def identities_beside(folder: Path | None) -> dict[Path, FileIdentity]:
    """Config, tokenizer, templates and whatever else comes along with the weights of a folder, as they are now."""
    if folder is None:
        return {}
    read = (path for path in sorted(folder.iterdir()) if path.suffix in (".json", ".jinja"))
    return identities(path for path in (*read, *small_files(folder).values()) if path.is_file())


def files_beside(folder: Path | None, merged: Iterable[Path] = ()) -> FilesBeside:
    """What is carried from a model folder, and what is not; `merged` are the files whose numbers are in the output."""
    if folder is None:
        return FilesBeside({}, ())
    carried = {str(path.relative_to(folder)): path for one in _CARRIED for path in _found(folder, one)}
    modules, code_of_modules = _modules(folder)
    asks_for_code = code_of_modules or _has_local_code(read_config(folder) or {})
    used = {os.path.realpath(path) for path in merged}
    left: list[str] = []
    for entry in sorted(folder.iterdir()):
        name = entry.name
        if name.lower() in TOOL_FILES:
            continue
        if entry.is_dir():
            if name in modules:
                carried |= _of_module(entry, asks_for_code)
            some = any(place.startswith(f"{name}/") for place in carried)
            left += [place for place in _inside(entry) if place not in carried] if some else [f"{name}/"]
        elif asks_for_code and entry.suffix == ".py" and entry.is_file():
            carried[name] = entry
        elif name not in carried and name not in _REPLACED and not name.endswith(".index.json"):
            left += [name] if os.path.realpath(entry) not in used else []
    return FilesBeside(carried, tuple(left))


def _modules(folder: Path) -> tuple[set[str], bool]:
    """The sub-folders of a sentence-transformers model's modules, and whether one is a class of the model's own."""
    path = folder / "modules.json"
    listed = read_json(path) if path.is_file() else []
    modules = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    places = {str(one.get("path", "")).split("/")[0] for one in modules}
    return places - {""}, any(not str(one.get("type", "")).startswith("sentence_transformers.") for one in modules)


def _of_module(folder: Path, asks_for_code: bool) -> dict[str, Path]:
    """Without code that nothing asks for, and of its weights only those that are loaded: safetensors, else a pickle."""
    files = _inside(folder)
    safe = {path.parent for path in files.values() if path.suffix == ".safetensors"}

    def stays(path: Path) -> bool:
        kind = kind_of(path.name)
        if kind == "pickle":
            return path.parent in safe
        return (kind == "weights" and path.suffix != ".safetensors") or (kind == "code" and not asks_for_code)

    return {name: path for name, path in files.items() if not stays(path)}


def _found(folder: Path, pattern: str) -> list[Path]:
    """What bears such a name, also if it is no plain file: whoever needs it says so, and nothing is passed over."""
    if "*" in pattern:
        return sorted(folder.glob(pattern))
    return [folder / pattern] if os.path.lexists(folder / pattern) else []


def _inside(folder: Path) -> dict[str, Path]:
    """The plain files under a sub-folder, by their names seen from above it; further links to folders stay shut."""
    found: dict[str, Path] = {}
    for place, folders, names in os.walk(folder):
        folders.sort()
        paths = (Path(place, name) for name in sorted(names))
        found |= {path.relative_to(folder.parent).as_posix(): path for path in paths if path.is_file()}
        if len(found) > _MOST:
            break
    return found


def _has_local_code(config: Mapping[str, Any]) -> bool:
    """Whether `auto_map` names modules of this folder: such a model does not load without them."""
    auto_map = config.get("auto_map")
    return isinstance(auto_map, Mapping) and any(isinstance(v, str) and "--" not in v for v in auto_map.values())
