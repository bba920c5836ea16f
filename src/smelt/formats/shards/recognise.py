"""Which folders hold shards of training, by the names of their files alone: asked of every folder that is opened."""

from __future__ import annotations

import re
from pathlib import Path

from smelt.errors import CorruptFile, shortened
from smelt.files.reading import is_there, names_in, read_text

__all__ = [
    "DCP_FILE",
    "DEEPSPEED_MODEL",
    "DEEPSPEED_OPTIMISER",
    "MEGATRON_RANK",
    "METADATA",
    "MODEL_FOLDERS",
    "RANK_FILE",
    "SHARDED_FILE",
    "dcp_folder",
    "deepspeed_folder",
    "has_rank_files",
    "has_whole_shards",
    "megatron_folder",
    "sharded_safetensors",
]

METADATA = ".metadata"
MODEL_FOLDERS = ("pytorch_model_fsdp_0", "model", "weights", "sharded")
"""Folders inside a step's in which frameworks put the model: accelerate, fsdp2's examples, NeMo, torch."""
DCP_FILE = re.compile(r"^__(\d+)_\d+\.distcp$")
SHARDED_FILE = re.compile(r"^shard-(\d{5,})-model-(\d{5})-of-(\d{5})\.safetensors$")
DEEPSPEED_MODEL = re.compile(r"^(?:zero_pp_rank_(?P<rank>\d+)_)?mp_rank_(?P<part>\d+)_model_states\.pt$")
DEEPSPEED_OPTIMISER = re.compile(r"^(?:bf16_)?zero_pp_rank_(?P<rank>\d+)_mp_rank_(?P<part>\d+)_optim_states\.pt$")
MEGATRON_RANK = re.compile(r"^mp_rank_(?P<tensor>\d{2})(?:_(?P<stage>\d{3}))?(?P<expert>_\d{3})?$")
RANK_FILE = re.compile(r"^model_world_size_(\d{1,6})_rank_(\d{1,6})\.pt$")
_TAG = re.compile(r"^global_step\d+$")
_LATEST = "latest"
_LATEST_ITERATION = "latest_checkpointed_iteration.txt"


def dcp_folder(path: Path) -> Path | None:
    """The folder of a distributed checkpoint of torch at a path: itself, or one inside of a training step's."""
    if not path.is_dir():
        return None
    return next((one for one in (path, *(path / name for name in MODEL_FOLDERS)) if _is_dcp(one)), None)


def _is_dcp(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    return (folder / METADATA).is_file() or any(map(DCP_FILE.match, names_in(folder)))


def sharded_safetensors(path: Path) -> Path | None:
    """The folder of such a checkpoint in safetensors: itself, or one inside of a training step's."""
    if not path.is_dir():
        return None
    names = names_in(path)
    if any(name.endswith(".safetensors") for name in names):  # beside whole files, shards are what these came from
        return path if any(map(SHARDED_FILE.match, names)) else None
    inner = (path / name for name in MODEL_FOLDERS if (path / name).is_dir())
    return next((one for one in inner if any(map(SHARDED_FILE.match, names_in(one)))), None)


def deepspeed_folder(path: Path) -> Path | None:
    """The folder with DeepSpeed's files: the path itself, or the one that `latest` names, or the only one there is."""
    if not path.is_dir():
        return None
    if _has_states(path):
        return path
    names = names_in(path)
    tags = [name for name in names if _TAG.match(name) and _has_states(path / name)]
    if _LATEST in names and (tags or (path / "zero_to_fp32.py").is_file()):
        tag = read_text(path / _LATEST, 1 << 12).strip()
        if tag not in names or not (path / tag).is_dir():
            raise CorruptFile(
                f"{path / _LATEST}: names {shortened(tag)!r}, and there is no such folder; copy it, or write another "
                f"folder's name into the file ({', '.join(tags) or 'none is there'})"
            )
        return path / tag
    return path / tags[0] if len(tags) == 1 else None


def _has_states(folder: Path) -> bool:
    if not folder.is_dir():
        return False
    return any(DEEPSPEED_MODEL.match(name) or DEEPSPEED_OPTIMISER.match(name) for name in names_in(folder))


def megatron_folder(path: Path) -> Path | None:
    """The folder of one iteration of Megatron at a path: itself, or the one that the run's note names."""
    if not path.is_dir():
        return None
    if _is_iteration(path):
        return path
    if (path / _LATEST_ITERATION).is_file():
        said = read_text(path / _LATEST_ITERATION, 1 << 10).strip()
        name = f"iter_{int(said):07d}" if said.isdecimal() and len(said) < 12 else said
        if name in names_in(path) and (path / name).is_dir() and _is_iteration(path / name):
            return path / name
        raise CorruptFile(
            f"{path / _LATEST_ITERATION}: names {shortened(said)!r}, and no such iteration is there; name an "
            "iteration's folder"
        )
    return None


def _is_iteration(folder: Path) -> bool:
    names = names_in(folder)
    return ("common.pt" in names and dcp_folder(folder) is not None) or any(map(MEGATRON_RANK.match, names))


def has_rank_files(path: Path) -> bool:
    """Whether a folder holds a file for each rank of FSDP."""
    return path.is_dir() and any(map(RANK_FILE.match, names_in(path)))


def has_whole_shards(path: Path) -> bool:
    """Whether a folder holds shards that a framework has finished, as far as names tell."""
    folder = dcp_folder(path)
    if folder is not None:
        return is_there(folder / METADATA)
    found = (find(path) is not None for find in (sharded_safetensors, megatron_folder, deepspeed_folder))
    return has_rank_files(path) or any(found)
