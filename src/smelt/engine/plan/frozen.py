"""The part of a model that fine-tunes never change, the vision tower of a LLaVA: copied from the reference, not merged.

    include that names it    it is merged like the rest
    skip that names it       the reference's is taken, whatever the others have
    neither                  it is left out by itself, and models whose tower is another one are refused

A mean of equal numbers is not always that number, so a copy is what keeps it byte by byte. Towers are compared by
hashes of their numbers. What stands in the same file for both is not read; what is read is remembered for files
that did not change.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Sequence
from pathlib import Path

from smelt.errors import CorruptFile
from smelt.files.cache import cache_folder
from smelt.files.hashing.remembered import remembered_as
from smelt.files.json_reader import read_json
from smelt.formats import dtype as dtypes
from smelt.formats.config import read_config
from smelt.formats.lora.shared_base import SharedSource
from smelt.formats.lora.source import LoraSource
from smelt.formats.source import Source
from smelt.models.families.image_text.kinds import kind_of
from smelt.models.pool import ModelPool
from smelt.recipe.schema import Recipe
from smelt.recipe.values import matches

__all__ = ["frozen_keys", "leave_frozen"]

_BLOCK = 1 << 20


def frozen_keys(source: Source) -> list[str]:
    """The tensors that fine-tunes of this model share; none for a model of another kind."""
    tower = _tower(source)
    return [key for key in source.tensors if key.startswith(tower)] if tower is not None else []


def _tower(source: Source) -> str | None:
    """What the names of the frozen tensors begin with."""
    config = read_config(source.folder) if source.folder is not None else None
    kind = kind_of(config, source.tensors)
    return kind.tower if kind is not None else None


def leave_frozen(recipe: Recipe, pool: ModelPool) -> tuple[Recipe, list[str]]:
    """The recipe with the frozen part left out, and every fault of models that have another one."""
    keys = frozen_keys(pool.reference)
    if not keys or any(matches(pattern, key) for pattern in recipe.include for key in keys):
        return recipe, []
    if all(any(matches(pattern, key) for pattern in recipe.skip) for key in keys):
        return recipe, []
    pattern = f"{_tower(pool.reference)}*"
    without = recipe if recipe.include else recipe.model_copy(update={"skip": [*recipe.skip, pattern]})
    return without, _faults(pool, keys, pattern)


def _faults(pool: ModelPool, keys: Sequence[str], pattern: str) -> list[str]:
    first, faults = pool.reference_name, []
    ours, remedy = _Part(pool.reference, keys), f"`skip: {pattern}` takes that of {pool.reference_name} as it is"
    for name, source in pool.all.items():
        if name == first:
            continue
        theirs = _Part(source, frozen_keys(source))
        lacks, extra = [k for k in keys if k not in theirs.keys], [k for k in theirs.keys if k not in ours.keys]
        if lacks or extra:
            what = f"lacks {lacks[0]!r}, which {first} has" if lacks else f"has {extra[0]!r}, which {first} lacks"
            faults.append(f"the vision towers of {first} and {name} differ: {name} {what}; {remedy}")
        elif theirs.place != ours.place and (other := [k for k in keys if ours.hashes[k] != theirs.hashes[k]]):
            faults.append(
                f"the vision towers of {first} and {name} differ, first in {other[0]!r} ({len(other)} of {len(keys)} "
                f"tensors); fine-tunes of one model share theirs. {remedy}, `include: '*'` merges them like the rest"
            )
    return faults


class _Part:
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
            self._hashes = _read(file) if file is not None else None
            if self._hashes is None or self._hashes.keys() != self.keys:
                self._hashes = {key: _hash(self._source, key) for key in sorted(self.keys)}
                if file is not None:
                    _write(file, self._hashes)
        return self._hashes

    def _remembered(self) -> Path | None:
        if not self._source.files:
            return None
        content = [type(self._source).__name__, *sorted(remembered_as(*file) for file in self._source.files.items())]
        name = hashlib.sha256(json.dumps([*content, sorted(self.keys)]).encode()).hexdigest()
        return cache_folder() / "towers" / f"{name}.json"


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


def _read(file: Path) -> dict[str, str] | None:
    try:
        content = read_json(file)
    except CorruptFile:
        return None
    return content if isinstance(content, dict) else None


def _write(file: Path, hashes: dict[str, str]) -> None:
    """Losing it costs time only."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(hashes), encoding="utf-8")
        draft.replace(file)
    except OSError:
        return
