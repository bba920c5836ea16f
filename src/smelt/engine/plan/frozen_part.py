"""The frozen part of models, which fine-tunes never change (the vision tower of a LLaVA), compared between them.

By hashes of the numbers, which are remembered; what stands in the same file for both is not read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from smelt.caller import word
from smelt.engine.pool import ModelPool
from smelt.files.cache import cached_path, write_cached
from smelt.files.identity import cache_key
from smelt.files.reading import find_json_table
from smelt.formats import dtype as dtypes
from smelt.formats.lora.shared_base import SharedSource
from smelt.formats.lora.source import LoraSource
from smelt.formats.source import Source
from smelt.formats.views.view import frozen_keys

__all__ = ["frozen_part_faults"]

_BLOCK = 1 << 20
"""Elements that are hashed at once."""


def frozen_part_faults(pool: ModelPool, keys: Sequence[str], pattern: str) -> list[str]:
    """Models whose frozen part is not that of the reference, which has the tensors `keys`; `pattern` leaves it out."""
    first, faults = pool.reference_name, []
    ours, remedy = (
        _TowerHashes(pool.reference, keys),
        f"{word('skip', pattern)} takes that of {pool.reference_name} as it is",
    )
    for name, source in pool.all.items():
        if name == first:
            continue
        theirs = _TowerHashes(source, frozen_keys(source))
        lacks, extra = [k for k in keys if k not in theirs.keys], [k for k in theirs.keys if k not in ours.keys]
        if lacks or extra:
            what = f"lacks {lacks[0]!r}, which {first} has" if lacks else f"has {extra[0]!r}, which {first} lacks"
            faults.append(f"the vision towers of {first} and {name} differ: {name} {what}; {remedy}")
        elif theirs.place != ours.place and (other := [k for k in keys if ours.hashes[k] != theirs.hashes[k]]):
            faults.append(
                f"the vision towers of {first} and {name} differ, first in {other[0]!r} ({len(other)} of {len(keys)} "
                f"tensors); fine-tunes of one model share theirs. {remedy}, {word('include', '*')} merges them "
                "like the rest"
            )
    return faults


class _TowerHashes:
    """Some tensors of a Source, read only if they have to be."""

    def __init__(self, source: Source, keys: Sequence[str]):
        self.keys = frozenset(keys)
        while True:  # an adapter that leaves them alone has its base's
            if isinstance(source, SharedSource):
                source = source.inner
            elif isinstance(source, LoraSource) and not any(source.changes(key) for key in keys):
                source = source.base
            else:
                break
        self._source = source
        self._hashes: dict[str, str] | None = None

    @property
    def place(self) -> object:
        """Equal for parts that stand in the same files."""
        return tuple(Path(file).resolve() for file in self._source.files) or self._source

    @property
    def hashes(self) -> dict[str, str]:
        """Over shape and numbers of each tensor, in float32."""
        if self._hashes is None:
            file = self._remembered()
            self._hashes = find_json_table(file) if file is not None else None
            if self._hashes is None or self._hashes.keys() != self.keys:
                self._hashes = {key: _hash(self._source, key) for key in sorted(self.keys)}
                if file is not None:
                    write_cached(file, json.dumps(self._hashes))
        return self._hashes

    def _remembered(self) -> Path | None:
        if not self._source.files:
            return None
        content = [type(self._source).__name__, *sorted(cache_key(*file) for file in self._source.files.items())]
        name = hashlib.sha256(json.dumps([*content, sorted(self.keys)]).encode()).hexdigest()
        return cached_path("towers", f"{name}.json")


def _hash(source: Source, key: str) -> str:
    import torch

    info = source.tensors[key]
    kind = torch.float32 if info.dtype in dtypes.FLOATS else dtypes.torch_dtype(info.dtype)
    digest = hashlib.sha256(str(info.shape).encode())
    for start in range(0, info.count, _BLOCK):
        block = torch.empty(min(_BLOCK, info.count - start), dtype=kind)
        source.read(key, start, block)
        digest.update(block.numpy().data)
    return digest.hexdigest()
