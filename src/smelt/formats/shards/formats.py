"""The formats of training checkpoints, as smelt.formats.open asks for them; their readers load when one is opened."""

from __future__ import annotations

from pathlib import Path

from smelt.formats.open import OpenOptions, formats
from smelt.formats.shards import recognise
from smelt.formats.source import Source


class _Dcp:
    """A distributed checkpoint of torch: FSDP, FSDP2, accelerate, torchtitan."""

    def recognises(self, path: Path) -> bool:
        return recognise.dcp_folder(path) is not None

    def open(self, path: Path, options: OpenOptions) -> Source:
        from smelt.formats.shards.dcp import open_dcp

        return open_dcp(path, options.part)


class _DcpSafetensors:
    """The same in safetensors files, block by block."""

    def recognises(self, path: Path) -> bool:
        return recognise.sharded_safetensors(path) is not None

    def open(self, path: Path, options: OpenOptions) -> Source:
        from smelt.formats.shards.dcp_safetensors import open_dcp_safetensors

        return open_dcp_safetensors(path)


class _Megatron:
    """An iteration of Megatron-core. Its legacy files are refused unless pickles are allowed."""

    def recognises(self, path: Path) -> bool:
        return recognise.megatron_folder(path) is not None

    def open(self, path: Path, options: OpenOptions) -> Source:
        from smelt.formats.shards.megatron import open_megatron

        return open_megatron(path, options.part, allow_pickle=options.allow_pickle)


class _RankFiles:
    """What every rank of FSDP saved by itself: verl. Refused unless pickles are allowed."""

    def recognises(self, path: Path) -> bool:
        return recognise.has_rank_files(path)

    def open(self, path: Path, options: OpenOptions) -> Source:
        from smelt.formats.shards.rank_files import open_rank_files

        return open_rank_files(path, allow_pickle=options.allow_pickle)


class _DeepSpeed:
    """What ZeRO saves: a part of the weights for each rank. Refused unless pickles are allowed."""

    def recognises(self, path: Path) -> bool:
        return recognise.deepspeed_folder(path) is not None

    def open(self, path: Path, options: OpenOptions) -> Source:
        from smelt.formats.shards.deepspeed import open_deepspeed

        return open_deepspeed(path, allow_pickle=options.allow_pickle)


formats["dcp_safetensors"] = _DcpSafetensors()
formats["megatron"] = _Megatron()
formats["dcp"] = _Dcp()
formats["fsdp_ranks"] = _RankFiles()
formats["deepspeed"] = _DeepSpeed()
