"""Opening what lies at a path: a model folder, one weights file, a delta pack. Pickles are refused by default.

Names are brought to those of Hugging Face's whole models (open_clip.py, tower.py, image_text_names.py), so that all
kinds merge.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile, RecipeError, shortened
from smelt.files.bounded import is_there, names_in
from smelt.files.identity import FileIdentity, identities
from smelt.files.json_reader import read_json
from smelt.formats.clip_tower import with_tower_prefix
from smelt.formats.image_text_names import with_module_names
from smelt.formats.open_clip import from_open_clip
from smelt.formats.source import FileSource, MemorySource, Source

__all__ = ["identities_beside", "is_adapter", "is_delta", "is_pickle", "open_path"]

_INDEX = "model.safetensors.index.json"
_SINGLE = "model.safetensors"
_DELTA = "delta.safetensors"
_SMALL = (".json", ".jinja")
_PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
_SHARD = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<total>\d{5})\.(safetensors|bin|pt|pth)$")
_TRAINER = re.compile(r"^(training_args|optimizer|scheduler|scaler|rng_state|random_states|adapter_model)")


def open_path(path: Path, *, allow_pickle: bool = False) -> Source:
    """The model at a path: a Hugging Face folder (sharded or not, with or without index), a pack, a weights file."""
    if (path / "mix.json").is_file():
        raise RecipeError(
            f"{path}: is a mixture of several models (mix.json), not one set of weights; it can be evaluated, but not "
            "merged, packed or measured"
        )
    pack = path.parent if path.name == _DELTA else path
    if is_delta(pack):
        from smelt.formats.packs.source import open_delta

        _refuse_other_weights(pack)
        return open_delta(pack, allow_pickle=allow_pickle)
    source = _open_weights(path, allow_pickle)
    source.beside = identities_beside(source.folder)
    return with_module_names(with_tower_prefix(from_open_clip(source)))


def identities_beside(folder: Path | None) -> dict[Path, FileIdentity]:
    """Config, tokenizer, templates and whatever else comes along with the weights of a folder, as they are now."""
    if folder is None:
        return {}
    from smelt.engine.sink.carry import small_files

    read = (path for path in sorted(folder.iterdir()) if path.suffix in _SMALL)
    return identities(path for path in (*read, *small_files(folder).values()) if path.is_file())


def _open_weights(path: Path, allow_pickle: bool) -> Source:
    if path.is_dir():
        return _open_folder(path, allow_pickle)
    if path.suffix == ".safetensors":
        folder = path.parent if (path.parent / "config.json").exists() else None
        return FileSource(str(path), [path], folder)
    if path.suffix == ".gguf":
        from smelt.formats.gguf.source import GGUFSource

        return GGUFSource(path)
    if path.suffix in _PICKLES:
        return _open_pickles([path], path, None, allow_pickle)
    raise RecipeError(f"{path}: not a model (a folder, or a .safetensors or .gguf file)")


def is_adapter(path: Path) -> bool:
    return is_there(path / "adapter_config.json")


def is_delta(path: Path) -> bool:
    return (path / "delta.json").is_file()


def is_pickle(name: str) -> bool:
    """Whether a file of this name holds a model's weights as pickle; what trainers leave beside them does not."""
    return name.endswith(_PICKLES) and not _TRAINER.match(name)


def _refuse_other_weights(pack: Path) -> None:
    others = sorted(path.name for path in pack.glob("*.safetensors") if path.name != _DELTA)
    if others:
        raise CorruptFile(
            f"{pack}: holds both a delta pack (delta.json) and {others[0]}, so it is unclear which weights are meant; "
            "remove the stale one"
        )


def _open_folder(path: Path, allow_pickle: bool) -> Source:
    has_index, has_single = (path / _INDEX).exists(), (path / _SINGLE).exists()
    if has_index and has_single:
        raise CorruptFile(
            f"{path}: holds both {_SINGLE} and {_INDEX}, so it is unclear which weights are meant; remove the stale one"
        )
    if has_index:
        return _open_indexed(path)
    if has_single:
        return FileSource(str(path), [path / _SINGLE], path)
    files = sorted(path.glob("*.safetensors"))
    if files:
        return FileSource(str(path), _complete(path, files), path)
    gguf = sorted(path.glob("*.gguf"))
    if len(gguf) == 1:
        return open_path(gguf[0])
    pickles = sorted(path / name for name in names_in(path) if is_pickle(name))
    if pickles:
        return _open_pickles(_complete(path, pickles), path, path, allow_pickle)
    raise CorruptFile(f"{path}: no model weights (*.safetensors) in this folder")


def _open_indexed(path: Path) -> Source:
    index = read_json(path / _INDEX)
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not places or not all(isinstance(name, str) for name in places.values()):
        raise CorruptFile(f"{path / _INDEX}: has no weight_map from tensors to files")
    names = sorted(set(places.values()))
    outside = next((name for name in names if Path(name).is_absolute() or ".." in Path(name).parts), None)
    if outside:
        raise CorruptFile(f"{path / _INDEX}: names {shortened(outside)!r}, which is not in this folder")
    missing = [name for name in names if not is_there(path / name)]
    if missing:
        raise CorruptFile(f"{path}: the index names shards that are not there: {', '.join(map(shortened, missing))}")
    source = FileSource(str(path), [path / name for name in names], path)
    absent, unlisted = sorted(places.keys() - source.tensors.keys()), sorted(source.tensors.keys() - places.keys())
    if absent or unlisted:
        source.close()
        what = f"lists {absent[0]!r}, which no shard holds" if absent else f"does not list {unlisted[0]!r}"
        raise CorruptFile(f"{path / _INDEX}: {what} ({len(absent) + len(unlisted)} such tensors)")
    return source


def _complete(path: Path, files: list[Path]) -> list[Path]:
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


def _open_pickles(files: list[Path], path: Path, folder: Path | None, allow_pickle: bool) -> Source:
    if not allow_pickle:
        raise CorruptFile(
            f"{path}: its weights are pickles ({files[0].name}), which can run code when opened. Convert them to "
            "safetensors, or write `allow_pickle: true` (`--allow-pickle` as a flag) to read them with weights_only"
        )
    import torch

    from smelt.formats.pickles import check_records, read_pickle

    seen = identities(files)
    state: dict[str, Any] = {}
    for file in files:
        content = read_pickle(file, mapped=True)
        if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
            content = content["state_dict"]
        if not isinstance(content, dict) or not all(
            isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in content.items()
        ):
            raise CorruptFile(f"{file}: does not hold a plain table of tensors")
        check_records(file, content.values())
        twice = state.keys() & content.keys()
        if twice:
            raise CorruptFile(f"{file}: {sorted(twice)[0]!r} stands in another file of this model too")
        state.update(content)
    source = MemorySource(str(path), state)
    source.files, source.folder = seen, folder
    return source
