"""Shards: which weights files an output has, and which tensors each holds.

In: the tensors of a plan, the size of a shard, and where the model's components live. Out: `Shard`s, each component's
own, and the indexes of those that have several.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from smelt.formats.safetensors import encode_header
from smelt.formats.source import Component, TensorInfo, prefix_of

__all__ = ["Shard", "index_files", "lay_out"]


@dataclass(frozen=True)
class Shard:
    """One weights file of the output."""

    name: str
    tensors: Mapping[str, TensorInfo]
    prefix: str = ""
    """What the names of its tensors begin with, and the file leaves away."""
    index: str | None = None
    """The index that names it, where its component has several."""

    def header(self, metadata: Mapping[str, str]) -> tuple[bytes, dict[str, int]]:
        stored = {self.stored_name(key): info for key, info in self.tensors.items()}
        head, offsets = encode_header(stored, metadata)
        return head, dict(zip(self.tensors, offsets.values(), strict=True))

    def stored_name(self, key: str) -> str:
        """What a tensor is called in the file."""
        return key.removeprefix(self.prefix)


class _Placed(Protocol):
    """A tensor that has a place in a file."""

    @property
    def key(self) -> str: ...

    @property
    def info(self) -> TensorInfo: ...


def lay_out(
    items: Sequence[_Placed], shard_size: int, components: Mapping[str, Component] | None = None
) -> list[Shard]:
    """The weights files of a folder: each component's own, by the prefix of its tensors; all else lies at the top."""
    parts: dict[str, list[_Placed]] = {}
    for item in items:
        parts.setdefault(prefix_of(item.key, components or ()), []).append(item)
    places = {"": Component(), **(components or {})}
    return [shard for prefix, own in parts.items() for shard in _shards(own, shard_size, prefix, places[prefix])]


def _shards(items: Sequence[_Placed], shard_size: int, prefix: str, component: Component) -> list[Shard]:
    """Tensors in their order, a new shard where the next would make the last too large."""
    groups: list[dict[str, TensorInfo]] = [{}]
    size = 0
    for item in items:
        if groups[-1] and size + item.info.nbytes > shard_size:
            groups.append({})
            size = 0
        groups[-1][item.key] = item.info
        size += item.info.nbytes
    index = component.index if len(groups) > 1 else None
    names = component.files(len(groups))
    return [Shard(name, group, prefix, index) for name, group in zip(names, groups, strict=True)]


def index_files(shards: Sequence[Shard]) -> dict[str, bytes]:
    """The indexes that sharded Hugging Face folders carry, by name; none where each component has one file."""
    names = dict.fromkeys(shard.index for shard in shards if shard.index is not None)
    return {name: _index([shard for shard in shards if shard.index == name]) for name in names}


def _index(shards: Sequence[Shard]) -> bytes:
    weight_map = {shard.stored_name(key): Path(shard.name).name for shard in shards for key in shard.tensors}
    total = sum(info.nbytes for shard in shards for info in shard.tensors.values())
    return json.dumps({"metadata": {"total_size": total}, "weight_map": weight_map}, indent=2).encode() + b"\n"
