"""How the weights of an output are laid out: which tensors each file holds, and their index."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from smelt.formats.safetensors import encode_header
from smelt.formats.source import TensorInfo

__all__ = ["INDEX_NAME", "Shard", "index_file", "lay_out"]

INDEX_NAME = "model.safetensors.index.json"


@dataclass(frozen=True)
class Shard:
    """One weights file of the output."""

    name: str
    tensors: Mapping[str, TensorInfo]

    def header(self, metadata: Mapping[str, str]) -> tuple[bytes, dict[str, int]]:
        return encode_header(self.tensors, metadata)


class _Placed(Protocol):
    """A tensor that has a place in a file."""

    @property
    def key(self) -> str: ...

    @property
    def info(self) -> TensorInfo: ...


def lay_out(items: Sequence[_Placed], shard_size: int) -> list[Shard]:
    """Tensors in their order, a new shard where the next would make the last too large."""
    groups: list[dict[str, TensorInfo]] = [{}]
    size = 0
    for item in items:
        if groups[-1] and size + item.info.nbytes > shard_size:
            groups.append({})
            size = 0
        groups[-1][item.key] = item.info
        size += item.info.nbytes
    if len(groups) == 1:
        return [Shard("model.safetensors", groups[0])]
    total = len(groups)
    return [Shard(f"model-{n:05d}-of-{total:05d}.safetensors", group) for n, group in enumerate(groups, 1)]


def index_file(shards: Sequence[Shard]) -> bytes:
    """The index that sharded Hugging Face folders carry."""
    weight_map = {name: shard.name for shard in shards for name in shard.tensors}
    total = sum(info.nbytes for shard in shards for info in shard.tensors.values())
    return json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2).encode() + b"\n"
