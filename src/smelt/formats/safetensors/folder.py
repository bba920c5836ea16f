"""Safetensors as a model: one file, or a Hugging Face folder with one or several, with or without an index."""

from __future__ import annotations

import re
from pathlib import Path

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import is_there, read_json
from smelt.formats.source import FileSource, Source

__all__ = ["INDEX", "complete_shards", "open_file", "open_folder"]

INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_SHARD = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.(safetensors|bin|pt|pth)$")


def open_file(path: Path) -> Source:
    """One file; its folder is a model's where a config lies beside."""
    return FileSource(str(path), [path], path.parent if (path.parent / "config.json").exists() else None)


def open_folder(path: Path) -> Source:
    """The weights of a folder that has some."""
    has_index, has_single = (path / INDEX).exists(), (path / _SINGLE).exists()
    if has_index and has_single:
        raise CorruptFile(
            f"{path}: holds both {_SINGLE} and {INDEX}, so it is unclear which weights are meant; remove the stale one"
        )
    if has_index:
        return _open_indexed(path)
    if has_single:
        return FileSource(str(path), [path / _SINGLE], path)
    return FileSource(str(path), complete_shards(path, sorted(path.glob("*.safetensors"))), path)


def _open_indexed(path: Path) -> Source:
    index = read_json(path / INDEX)
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not places or not all(isinstance(name, str) for name in places.values()):
        raise CorruptFile(f"{path / INDEX}: has no weight_map from tensors to files")
    names = sorted(set(places.values()))
    outside = next((name for name in names if Path(name).is_absolute() or ".." in Path(name).parts), None)
    if outside:
        raise CorruptFile(f"{path / INDEX}: names {shortened(outside)!r}, which is not in this folder")
    missing = [name for name in names if not is_there(path / name)]
    if missing:
        raise CorruptFile(f"{path}: the index names shards that are not there: {', '.join(map(shortened, missing))}")
    source = FileSource(str(path), [path / name for name in names], path)
    absent, unlisted = sorted(places.keys() - source.tensors.keys()), sorted(source.tensors.keys() - places.keys())
    if absent or unlisted:
        source.close()
        what = f"lists {absent[0]!r}, which no shard holds" if absent else f"does not list {unlisted[0]!r}"
        raise CorruptFile(f"{path / INDEX}: {what} ({len(absent) + len(unlisted)} such tensors)")
    return source


def complete_shards(path: Path, files: list[Path]) -> list[Path]:
    """Shards without an index: none may be missing, and there may be only one set of them."""
    matches = [_SHARD.match(f.name) for f in files]
    sets = {(m["stem"], m["total"]) for m in matches if m}
    if not sets:
        return files
    if len(sets) > 1 or not all(matches):
        raise CorruptFile(f"{path}: holds several sets of weights ({', '.join(f.name for f in files[:6])} ...)")
    total = int(next(iter(sets))[1])
    present = {int(m["number"]) for m in matches if m}
    missing = [str(n) for n in range(1, total + 1) if n not in present]
    if missing:
        raise CorruptFile(f"{path}: {', '.join(f'{n} of {total}' for n in missing)} is missing from the shards")
    return files
