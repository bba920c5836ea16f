"""What an output folder says about itself: `manifest.json` for programs, and `README.md`, its model card, for people.

The manifest names what the folder is made of and from, with a BLAKE3 for every file, and is written last. It holds no
time and no path but those that the recipe names, so the same merge gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from smelt.errors import CorruptFile
from smelt.files.identity import HashKind
from smelt.files.reading import parse_json, read_bytes, read_json
from smelt.files.writing import OutputMark
from smelt.version import __version__

if TYPE_CHECKING:
    from smelt.recipe.schema import Recipe

__all__ = [
    "MANIFEST",
    "MARK",
    "ManifestEntry",
    "already_made",
    "encode_manifest",
    "find_manifest",
    "is_made_by",
    "model_card",
    "parse_manifest",
    "read_manifest",
]

MANIFEST = "manifest.json"
_SEAL = "manifest_sha256"
MARK = OutputMark(MANIFEST, ("smelt", "files", _SEAL))
"""By which an output folder is known."""


def encode_manifest(content: Mapping[str, Any], files: Mapping[str, tuple[str, int]]) -> bytes:
    """The manifest's bytes; `files` gives name -> (BLAKE3, bytes)."""
    body = {
        "smelt": __version__,
        **content,
        "files": {name: {"blake3": digest, "bytes": size} for name, (digest, size) in sorted(files.items())},
    }
    return _encode({**body, _SEAL: _seal(body)})


def already_made(
    folder: Path,
    recipe_hash: str,
    parents: Mapping[str, Mapping[str, Any]],
    statistics: Mapping[str, Mapping[str, Any]] | None = None,
) -> bool:
    """Whether a folder is the finished output of this very merge, by this version: a resumed run has nothing to do."""

    def size_of(name: str) -> int:
        return (folder / name).stat().st_size

    try:
        return is_made_by(read_json(folder / MANIFEST), recipe_hash, parents, statistics, size_of)
    except (OSError, CorruptFile):
        return False


def is_made_by(
    manifest: Any,
    recipe_hash: str,
    parents: Mapping[str, Mapping[str, Any]],
    statistics: Mapping[str, Mapping[str, Any]] | None,
    size_of: Callable[[str], int | None],
) -> bool:
    """Whether a manifest is that of this very merge, by this version, and its files have the sizes that it says."""
    try:
        made_from = {name: parent["files"] for name, parent in manifest["parents"].items()}
        beside = {name: one["files"] for name, one in manifest.get("statistics", {}).items()}
        same = (manifest["smelt"], manifest["recipe_hash"], made_from) == (__version__, recipe_hash, parents)
        same &= beside == (statistics or {})
        same &= all(size_of(name) == entry["bytes"] for name, entry in manifest["files"].items())
    except (AttributeError, KeyError, TypeError):
        return False
    return same


class ManifestEntry(NamedTuple):
    """What a manifest says of a file. Those of Smelt 0.1 have SHA-256."""

    kind: HashKind
    digest: str
    size: int


def read_manifest(folder: Path) -> tuple[dict[str, ManifestEntry], bool]:
    """The files that a folder's manifest knows, by name, and whether it is as it was written.

    A CorruptFile says why nothing can be read from it.
    """
    path = folder / MANIFEST
    return parse_manifest(read_bytes(path), str(path))


def parse_manifest(content: bytes, label: str) -> tuple[dict[str, ManifestEntry], bool]:
    """The same of a manifest's bytes."""
    try:
        manifest = parse_json(content, label)
        body = {key: value for key, value in manifest.items() if key != _SEAL}
        files = {name: _entry(entry) for name, entry in manifest["files"].items()}
        return files, manifest.get(_SEAL) == _seal(body) and content == _encode(manifest)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise CorruptFile(f"{label}: is not a manifest that Smelt wrote") from None


def find_manifest(folder: Path) -> dict[str, ManifestEntry]:
    """The files that a folder's manifest knows; none where it has none that can be read."""
    if not (folder / MANIFEST).is_file():
        return {}
    try:
        return read_manifest(folder)[0]
    except (OSError, CorruptFile):
        return {}


def _entry(entry: Any) -> ManifestEntry:
    kind: HashKind = "blake3" if "blake3" in entry else "sha256"
    digest, size = entry[kind], entry["bytes"]
    if not isinstance(digest, str) or type(size) is not int or not 0 <= size < 1 << 63:
        raise ValueError("no hash and size")
    return ManifestEntry(kind, digest, size)


def _encode(manifest: Mapping[str, Any]) -> bytes:
    return json.dumps(manifest, indent=2, ensure_ascii=False).encode() + b"\n"


def _seal(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def model_card(
    name: str, recipe: Recipe, stages: Sequence[str], parents: Mapping[str, str], notes: Sequence[str]
) -> bytes:
    """README.md in the hub's format: tags, parents, the recipe that makes the model again."""
    import yaml

    hub_names = [ref.removeprefix("hf:").split("@")[0] for ref in parents.values() if ref.startswith("hf:")]
    head: dict[str, object] = {"tags": ["merge", "smelt", *stages]}
    if hub_names:
        head["base_model"] = hub_names
        head["base_model_relation"] = "merge"
    rows = "\n".join(f"| {who} | `{ref}` |" for who, ref in parents.items())
    remarks = "".join(f"- {note}\n" for note in notes)
    text = f"""---
{yaml.safe_dump(head, sort_keys=False).strip()}
---
# {name}

Made by merging the models below with Smelt {__version__}: {", ".join(stages)}.

| model | reference |
|---|---|
{rows}

## Recipe

```yaml
{yaml.safe_dump(recipe.dump(), sort_keys=False, allow_unicode=True).strip()}
```

Save it as `recipe.yaml` and run `smelt merge recipe.yaml -o OUT`. `smelt verify OUT` checks every file of this folder
against `manifest.json`, which also holds the hashes of the parents.
"""
    return (text + (f"\n## Notes\n\n{remarks}" if remarks else "")).encode()
