"""The manifest: what an output folder is made of and from, with a SHA-256 for every file. Written last.

It holds no time and no path but those that the recipe names, so the same merge gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile
from smelt.files.json_reader import read_json
from smelt.files.replace import Mark
from smelt.version import __version__

__all__ = ["MANIFEST", "MARK", "already_made", "encode_manifest", "read_manifest"]

MANIFEST = "manifest.json"
_SEAL = "manifest_sha256"
MARK = Mark(MANIFEST, ("smelt", "files", _SEAL))
"""By which an output folder is known."""


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


def read_manifest(folder: Path) -> tuple[dict[str, tuple[str, int]], bool]:
    """The files that a folder's manifest knows, name -> (sha256, bytes), and whether it is as it was written.

    A CorruptFile says why nothing can be read from it.
    """
    path = folder / MANIFEST
    try:
        manifest = read_json(path)
        body = {key: value for key, value in manifest.items() if key != _SEAL}
        files = {name: _entry(entry) for name, entry in manifest["files"].items()}
        return files, manifest.get(_SEAL) == _seal(body) and path.read_bytes() == _encode(manifest)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise CorruptFile(f"{path}: is not a manifest that Smelt wrote") from None


def _entry(entry: Any) -> tuple[str, int]:
    digest, size = entry["sha256"], entry["bytes"]
    if not isinstance(digest, str) or type(size) is not int or not 0 <= size < 1 << 63:
        raise ValueError("no hash and size")
    return digest, size


def _encode(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n"


def _seal(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
