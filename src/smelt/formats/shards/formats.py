"""The formats of training checkpoints, as smelt.formats.open asks for them; their readers load when one is opened."""

from __future__ import annotations

from pathlib import Path

from smelt.files.reading import is_there
from smelt.formats.open import OpenOptions, formats
from smelt.formats.shards.dcp import dcp_folder, open_dcp
from smelt.formats.shards.dcp_metadata import METADATA
from smelt.formats.shards.dcp_safetensors import open_dcp_safetensors, sharded_safetensors
from smelt.formats.shards.deepspeed import open_deepspeed
from smelt.formats.shards.deepspeed_files import deepspeed_folder
from smelt.formats.shards.megatron import megatron_folder, open_megatron
from smelt.formats.source import Source

__all__ = ["has_whole_shards"]


def has_whole_shards(path: Path) -> bool:
    """Whether a folder holds shards that a framework has finished, as far as their names tell."""
    folder = dcp_folder(path)
    if folder is not None:
        return is_there(folder / METADATA)
    return any(find(path) is not None for find in (sharded_safetensors, megatron_folder, deepspeed_folder))


class _Dcp:
    """A distributed checkpoint of torch: FSDP, FSDP2, accelerate, torchtitan."""

    def recognises(self, path: Path) -> bool:
        return dcp_folder(path) is not None

    def open(self, path: Path, options: OpenOptions) -> Source:
        return open_dcp(path, options.part)


class _DcpSafetensors:
    """The same in safetensors files, block by block."""

    def recognises(self, path: Path) -> bool:
        return sharded_safetensors(path) is not None

    def open(self, path: Path, options: OpenOptions) -> Source:
        return open_dcp_safetensors(path)


class _Megatron:
    """An iteration of Megatron-core. Its legacy files are refused unless pickles are allowed."""

    def recognises(self, path: Path) -> bool:
        return megatron_folder(path) is not None

    def open(self, path: Path, options: OpenOptions) -> Source:
        return open_megatron(path, options.part, allow_pickle=options.allow_pickle)


class _DeepSpeed:
    """What ZeRO saves: a part of the weights for each rank. Refused unless pickles are allowed."""

    def recognises(self, path: Path) -> bool:
        return deepspeed_folder(path) is not None

    def open(self, path: Path, options: OpenOptions) -> Source:
        return open_deepspeed(path, allow_pickle=options.allow_pickle)


formats["dcp_safetensors"] = _DcpSafetensors()
formats["megatron"] = _Megatron()
formats["dcp"] = _Dcp()
formats["deepspeed"] = _DeepSpeed()
