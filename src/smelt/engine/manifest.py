"""The manifest: what an output folder is made of and from, with a SHA-256 for every file. Written last.

It holds no time and no path but those that the recipe names, so the same merge gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from smelt import __version__
from smelt.engine.hashers import Hashers
from smelt.engine.sha256 import FileHash
from smelt.errors import CorruptFile, RecipeError
from smelt.files.json_reader import read_json

__all__ = ["MANIFEST", "Verification", "already_made", "encode_manifest", "verify_folder"]

MANIFEST = "manifest.json"
_SEAL = "manifest_sha256"
_LOADED = (".safetensors", ".bin", ".index.json", ".gguf", ".pt", ".pth")


def encode_manifest(content: Mapping[str, Any], files: Mapping[str, tuple[str, int]]) -> bytes:
    """The manifest's bytes; `files` gives name -> (sha256, bytes)."""
    body = {
        "smelt": __version__,
        **content,
        "files": {name: {"sha256": digest, "bytes": size} for name, (digest, size) in sorted(files.items())},
    }
    return _encode({**body, _SEAL: _seal(body)})


def already_made(
    folder: Path,
    recipe_hash: str,
    parents: Mapping[str, Mapping[str, str]],
    statistics: Mapping[str, Mapping[str, str]] | None = None,
) -> bool:
    """Whether a folder is the finished output of this very merge, by this version: a resumed run has nothing to do."""
    try:
        manifest = read_json(folder / MANIFEST)
        made_from = {name: parent["files"] for name, parent in manifest["parents"].items()}
        beside = {name: one["files"] for name, one in manifest.get("statistics", {}).items()}
        same = (manifest["smelt"], manifest["recipe_hash"], made_from) == (__version__, recipe_hash, parents)
        same &= beside == (statistics or {})
        same &= all((folder / name).stat().st_size == entry["bytes"] for name, entry in manifest["files"].items())
    except (OSError, CorruptFile, AttributeError, KeyError, TypeError):
        return False
    return same


@dataclass(frozen=True)
class Verification:
    """What `smelt verify` found: the files that were checked, and a sentence for everything that is wrong."""

    folder: str
    checked: int
    faults: tuple[str, ...]

    @property
    def ok(self) -> bool:
        return not self.faults


def verify_folder(folder: Path) -> Verification:
    """Recompute every hash of a merged model's folder."""
    path = folder / MANIFEST
    if not folder.is_dir():
        raise RecipeError(f"{folder}: no such folder")
    if not path.exists():
        raise RecipeError(f"{folder}: has no {MANIFEST}, so it was not made by Smelt or its run did not finish")
    faults: list[str] = []
    try:
        manifest = read_json(path)
        body = {key: value for key, value in manifest.items() if key != _SEAL}
        files = dict(manifest["files"])
        if manifest.get(_SEAL) != _seal(body) or path.read_bytes() != _encode(manifest):
            faults.append(f"{MANIFEST}: has been changed since it was written")
    except (CorruptFile, AttributeError, KeyError, TypeError, ValueError):
        return Verification(str(folder), 0, (f"{MANIFEST}: is damaged and cannot be read",))
    faults += _file_faults(folder, files)
    known = {*files, MANIFEST}
    stray = sorted(p.name for p in folder.iterdir() if p.name not in known and p.name.endswith(_LOADED))
    faults += [f"{name}: the manifest does not know it, and loaders would read it" for name in stray]
    return Verification(str(folder), len(files), tuple(faults))


def _file_faults(folder: Path, files: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Of files by name, in their order. Those that are of the right size are hashed, several at once."""
    sizes = {name: (folder / name).stat().st_size for name in files if (folder / name).exists()}
    whole = [name for name, size in sizes.items() if size == files[name].get("bytes")]
    hashers = Hashers(partial(FileHash, folder / name) for name in whole)
    try:
        found = {name: future.result() for name, future in zip(whole, hashers.futures, strict=True)}
    finally:
        hashers.close()
    faults = []
    for name, entry in files.items():
        if name not in sizes:
            faults.append(f"{name}: is missing")
        elif name not in found:
            faults.append(f"{name}: has {sizes[name]:,} bytes instead of {entry.get('bytes')}")
        elif found[name] != entry.get("sha256"):
            faults.append(f"{name}: its content has changed (SHA-256 differs from the manifest)")
    return faults


def _encode(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n"


def _seal(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
