"""`smelt verify`: whether a folder holds what its manifest says, and nothing beside it that a program would load."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from smelt.display.blocks import Lines
from smelt.display.shown import Shown
from smelt.engine.sink.provenance import MANIFEST, ManifestEntry, read_manifest
from smelt.errors import CorruptFile, RecipeError
from smelt.files.hashing.blake3 import blake3_of
from smelt.files.identity import hash_file
from smelt.formats.file_kinds import TOOL_FILES, FileKind, kind_of, shown, some_of

__all__ = ["WHAT_FOR", "Verification", "content_fault", "verify_folder"]

WHAT_FOR: dict[FileKind, str] = {
    "weights": "could be loaded as weights",
    "pickle": "could run code when it is loaded",
    "code": "could be run",
    "tokenizer": "could change the tokens",
    "template": "could change the prompts",
    "config": "could change what is loaded",
}
"""What a program could do with a file of a kind that the manifest does not know."""


@dataclass(frozen=True)
class Verification(Shown):
    """What `smelt verify` found: the files that were checked, and a sentence for everything that is wrong."""

    folder: str
    checked: int
    faults: tuple[str, ...]
    unknown: tuple[str, ...] = ()
    """Files that the manifest does not know and no program would load; they are no fault."""

    @property
    def ok(self) -> bool:
        return not self.faults

    def found(self) -> list[Lines]:
        """What is there, without what is wrong."""
        there = [f"{self.folder}: {self.checked} files, all as the manifest says"] if self.ok else []
        count, names = len(self.unknown), some_of(self.unknown)
        unknown = [f"{count} more that it does not know and no program would load: {names}"] if count else []
        return [Lines([*there, *unknown])]

    def shown(self) -> list[Lines]:
        return [Lines([f"fault: {fault}" for fault in self.faults]), *self.found()]


def verify_folder(folder: Path) -> Verification:
    """Recompute every hash of a folder that Smelt wrote (a merged model, an adapter, a pack, a mixture)."""
    if folder.is_file():
        raise RecipeError(
            f"{folder}: is one file, which no manifest stands beside; a folder of Smelt's can be verified"
        )
    if not folder.is_dir():
        raise RecipeError(f"{folder}: no such folder")
    if not os.path.lexists(folder / MANIFEST):
        raise RecipeError(f"{folder}: has no {MANIFEST}, so it was not made by Smelt or its run did not finish")
    home = _Home(folder)
    fault = home.fault(MANIFEST)
    if fault is not None:
        return Verification(str(folder), 0, (fault,))
    try:
        files, untouched = read_manifest(folder)
    except CorruptFile:
        return Verification(str(folder), 0, (f"{MANIFEST}: is damaged and cannot be read",))
    except OSError as error:
        return Verification(str(folder), 0, (f"{MANIFEST}: cannot be read ({error.strerror})",))
    faults = [] if untouched else [f"{MANIFEST}: has been changed since it was written"]
    faults += _file_faults(home, files)
    unknown = []
    for name, loaded in _strangers(folder, files.keys() | {MANIFEST}):
        if loaded is None:
            unknown.append(name)
        else:
            faults.append(f"{shown(name)}: the manifest does not know it, and it {loaded}")
    return Verification(str(folder), len(files), tuple(faults), tuple(unknown))


class _Home:
    """Where the files of a folder may lie: inside it; and where it is a snapshot in the cache of the Hugging Face hub,
    also among that cache's blobs, to which all of its files are links.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self._real = folder.resolve()
        self._places = [self._real]
        if self._real.parent.name == "snapshots":
            self._places.append(self._real.parent.parent / "blobs")

    def fault(self, name: str) -> str | None:
        """Why a file of this name is not one to be read: it is not there, is no plain file or lies elsewhere."""
        parts = Path(name).parts
        if not parts or Path(name).is_absolute() or ".." in parts:
            return f"{shown(name)}: leads out of the folder"
        try:
            real = (self.folder / name).resolve(strict=True)
            kind = real.stat().st_mode
        except FileNotFoundError:
            return f"{shown(name)}: is missing"
        except (OSError, ValueError, RuntimeError) as error:  # a loop of links, a name too long or with a zero in it
            return f"{shown(name)}: cannot be looked at ({getattr(error, 'strerror', None) or error})"
        if not any(real.is_relative_to(place) for place in self._places):
            return f"{shown(name)}: is a link that leads out of the folder"
        if not stat.S_ISREG(kind):
            return f"{shown(name)}: is not a plain file"
        return None


def _file_faults(home: _Home, files: Mapping[str, ManifestEntry]) -> list[str]:
    """Of files by name, in their order. Those that are there and of the right size are hashed."""
    faults = {name: home.fault(name) for name in files}
    for name, fault in faults.items():
        if fault is None:
            faults[name] = _file_fault(home.folder / name, name, files[name])
    return [fault for fault in faults.values() if fault is not None]


def _file_fault(path: Path, name: str, wanted: ManifestEntry) -> str | None:
    try:
        return content_fault(
            name, wanted, path.stat().st_size, lambda: {"blake3": blake3_of, "sha256": hash_file}[wanted.kind](path)
        )
    except OSError as error:
        return f"{shown(name)}: cannot be read ({error.strerror or error})"


def content_fault(name: str, wanted: ManifestEntry, size: int, digest: Callable[[], str]) -> str | None:
    """How a file's size or hash differs from what the manifest says."""
    if size != wanted.size:
        return f"{shown(name)}: has {size:,} bytes instead of {wanted.size:,}"
    if digest() == wanted.digest:
        return None
    kind = {"blake3": "BLAKE3", "sha256": "SHA-256"}[wanted.kind]
    return f"{shown(name)}: its content has changed ({kind} differs from the manifest)"


def _strangers(folder: Path, known: Set[str]) -> Iterator[tuple[str, str | None]]:
    """What the manifest does not know, by name, with what a program could do with it (None where it would do nothing).

    Links to folders and folders that cannot be opened count as dangerous: nobody knows what lies there.
    """
    within = [""]
    while within:
        prefix = within.pop()
        try:
            entries = sorted(os.scandir(folder / prefix), key=lambda entry: entry.name)
        except OSError as error:
            yield prefix or ".", f"cannot be looked into ({error.strerror})"
            continue
        for entry in entries:
            name = prefix + entry.name
            if name in known:
                continue
            if not prefix and entry.name.lower() in TOOL_FILES:
                yield name, None
            elif entry.is_dir(follow_symlinks=False):
                within.append(f"{name}/")
            elif os.path.isdir(entry.path):  # which takes a loop of links for what it is: no folder
                yield name, "leads to another folder"
            else:
                kind = kind_of(name)
                yield name, WHAT_FOR[kind] if kind else None
