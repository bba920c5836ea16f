"""The files beside a pack's weights: its own, and those that it leaves to its base, which has the same bytes.

In: a pack's folder and note, and the folder of its base. Out: one folder with all of them, as if they lay in the pack.
Where the base has to give some, that folder is one of links in the cache: nothing is stored twice.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from smelt.errors import CorruptFile, IncompatibleModels
from smelt.files.identity import file_hashes
from smelt.files.reading import is_there
from smelt.formats.file_kinds import kind_of, some_of
from smelt.formats.packs.note import NOTE, WEIGHTS, DeltaNote
from smelt.formats.part_folders import MODEL_INDEX, MODULES
from smelt.formats.small_files_made import folder_of_links

__all__ = ["folder_around", "shared_with_base"]

_OWN = frozenset({"config.json", "open_clip_config.json", MODULES, MODEL_INDEX})
"""What says which model it is: a pack is to be known without its base."""


def shared_with_base(ours: Mapping[str, Path], theirs: Mapping[str, Path]) -> dict[str, str]:
    """Which files of a model are its base's byte for byte, with their SHA-256: tokenizer, processor, templates."""
    both = [name for name in sorted(ours.keys() & theirs.keys()) if _may_be_left(name)]
    plain = [name for name in both if ours[name].is_file() and theirs[name].is_file()]
    hashes = file_hashes([files[name] for name in plain for files in (ours, theirs)])
    return {name: hashes[ours[name]] for name in plain if hashes[ours[name]] == hashes[theirs[name]]}


def folder_around(folder: Path, note: DeltaNote, base: Path | None) -> Path | None:
    """The folder with config, tokenizer and all else of the packed model; `base` is the same folder of its base."""
    if not (folder / "config.json").exists():
        return base
    if not note.from_base:
        return folder
    own = {path.name: path for path in folder.iterdir() if path.name not in (NOTE, WEIGHTS)}
    return folder_of_links({**own, **_from_base(folder, own, note, base)}, folder.name)


def _from_base(folder: Path, own: Mapping[str, Path], note: DeltaNote, base: Path | None) -> dict[str, Path]:
    """The files that the base gives, each what it was when the model was packed."""
    for name in note.from_base:
        if not _may_be_left(name):
            raise CorruptFile(f"{folder / NOTE}: {name!r} is no file that a pack can leave to its base")
        if name in own:
            raise CorruptFile(
                f"{folder}: holds {name}, which delta.json takes from the base, so it is unclear which is meant; "
                "remove the stale one"
            )
    places = {name: base / name for name in note.from_base} if base is not None else {}
    found = {name: path for name, path in places.items() if is_there(path) and path.is_file()}
    hashes = file_hashes(list(found.values()))
    lost = [name for name, digest in note.from_base.items() if name not in found or hashes[found[name]] != digest]
    if lost:
        raise IncompatibleModels(
            [
                f"{folder} takes {some_of(lost)} from its base {note.base.ref}, which has no such file or another one; "
                "restore that base or pack the model again"
            ],
            cannot="be read as base and change",
        )
    return found


def _may_be_left(name: str) -> bool:
    """Small files by plain names, but for those that say what the model is."""
    plain = "/" not in name and "\\" not in name
    return plain and name not in _OWN and kind_of(name) in ("tokenizer", "template", "config")
