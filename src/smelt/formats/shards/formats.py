"""The formats of training checkpoints, as smelt.formats.open asks for them; their readers load when one is opened."""

from __future__ import annotations

from pathlib import Path

from smelt.errors import CorruptFile
from smelt.files.reading import names_in
from smelt.formats.open import OpenOptions, formats
from smelt.formats.shards.dcp import dcp_folder, open_dcp
from smelt.formats.shards.dcp_safetensors import open_dcp_safetensors, sharded_safetensors
from smelt.formats.shards.deepspeed import open_deepspeed
from smelt.formats.shards.deepspeed_files import deepspeed_folder
from smelt.formats.source import Source

__all__ = ["is_training_checkpoint"]


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


class _DeepSpeed:
    """What ZeRO saves: a part of the weights for each rank. Refused unless pickles are allowed."""

    def recognises(self, path: Path) -> bool:
        return deepspeed_folder(path) is not None

    def open(self, path: Path, options: OpenOptions) -> Source:
        return open_deepspeed(path, allow_pickle=options.allow_pickle)


formats["dcp_safetensors"] = _DcpSafetensors()
formats["dcp"] = _Dcp()
formats["deepspeed"] = _DeepSpeed()
