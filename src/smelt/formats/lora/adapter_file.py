"""The tensors of an adapter, wherever they lie: a PEFT folder, a folder of diffusers, a file, pickled or not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import is_there, parse_json
from smelt.formats.lora.config import AdapterConfig
from smelt.formats.lora.file_plan import FileAdapter
from smelt.formats.lora.keys import AdapterKey, holds_adapter, read_key
from smelt.formats.safetensors import FileSource, read_header
from smelt.formats.source import Source, read_whole

if TYPE_CHECKING:
    from smelt.formats.source import TensorInfo

__all__ = ["adapter_weights", "is_adapter_file", "open_adapter", "read_alphas", "read_file_adapter", "tensor_infos"]

_PEFT = "adapter_model.safetensors"
_PEFT_PICKLE = "adapter_model.bin"
_DIFFUSERS = "pytorch_lora_weights.safetensors"
_KOHYA = "lora.safetensors"
_METADATA = "lora_adapter_metadata"
_PICKLES = (".bin", ".pt", ".pth", ".ckpt")


def adapter_weights(path: Path) -> Path:
    """The file of an adapter's matrices."""
    if not path.is_dir():
        return path
    for name in (_PEFT, _PEFT_PICKLE, _DIFFUSERS, _KOHYA):
        if (path / name).is_file():
            return path / name
    if is_there(path / "adapter_config.json"):
        raise CorruptFile(f"{path}: there is an adapter_config.json but no {_PEFT}")
    raise CorruptFile(f"{path}: no adapter_config.json and no {_DIFFUSERS} here; this is not an adapter's folder")


def is_adapter_file(path: Path) -> bool:
    """Whether a file, or the one of a folder of diffusers, is an adapter by the names of its tensors."""
    if path.is_dir():
        path = next((path / name for name in (_DIFFUSERS, _KOHYA) if (path / name).is_file()), path)
    if path.suffix != ".safetensors" or not path.is_file():
        return False
    try:
        return holds_adapter(read_header(path).tensors)
    except CorruptFile:
        return False


def open_adapter(path: Path, *, allow_pickle: bool) -> Source:
    """The adapter's own tensors."""
    file = adapter_weights(path)
    if file.suffix not in _PICKLES:
        return FileSource(str(path), [file])
    from smelt.formats.pickles import open_pickles

    return open_pickles(file, [file], allow=allow_pickle)


def read_file_adapter(path: Path, source: Source) -> FileAdapter:
    """What a single file says beside its header: the alphas, and the config that diffusers wrote into it."""
    file = adapter_weights(path)
    metadata = read_header(file).metadata if file.suffix == ".safetensors" else {}
    return FileAdapter(source.tensors, _alphas(source), _written_config(file, metadata))


def _alphas(source: Source) -> dict[str, float]:
    import torch

    found: dict[str, float] = {}
    for name, info in source.tensors.items():
        key = read_key(name)
        if isinstance(key, AdapterKey) and key.part == "alpha" and info.count == 1:
            value = float(read_whole(source, name, torch.float32).reshape(()))
            if math.isfinite(value):
                found[name] = value
    return found


def read_alphas(path: Path) -> tuple[float, ...]:
    """The alphas of an adapter, each once; they are the only numbers that are read."""
    if adapter_weights(path).suffix in _PICKLES:
        return ()
    with closing(open_adapter(path, allow_pickle=False)) as source:
        return tuple(sorted(set(_alphas(source).values())))


def _written_config(file: Path, metadata: Mapping[str, str]) -> dict[str, AdapterConfig]:
    """By component; settings are called `unet.lora_alpha`, or `lora_alpha` where the file is one component's."""
    if _METADATA not in metadata:
        return {}
    settings = parse_json(metadata[_METADATA], f"{file}: its header has a {_METADATA}, which")
    if not isinstance(settings, dict):
        raise CorruptFile(f"{file}: its header has a {_METADATA} that is no table: {shortened(metadata[_METADATA])}")
    by_component: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        component, _, setting = str(name).rpartition(".")
        by_component.setdefault(component, {})[setting] = value
    configs = {}
    for component, found in by_component.items():
        config = AdapterConfig({"peft_type": "LORA", **found})
        if config.faults:
            raise CorruptFile(f"{file}: {_METADATA}: {config.faults[0]}")
        configs[component] = config
    return configs


def tensor_infos(path: Path) -> Mapping[str, TensorInfo]:
    """The header of an adapter; a pickle is described without being run."""
    file = adapter_weights(path)
    if file.suffix in _PICKLES:
        from smelt.formats.pickle_header import read_pickle_header

        return read_pickle_header(file).tensors
    with closing(FileSource(str(path), [file])) as source:
        return source.tensors
