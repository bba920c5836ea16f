"""A training state in one file of torch.save: the model's weights, averaged ones, the optimiser, counters, settings.

In: the file. Out: a Source of one part, read at its place in the file (smelt.formats.shards.parts has the rule).
Averaged weights that are a mere list (`shadow_params` of diffusers and torch_ema) get the names of the model's own, in
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile
from smelt.formats.pickle_header import StoredTensor
from smelt.formats.shards.parts import EMA, StateParts, split_state
from smelt.formats.shards.pieces import Pieces, ShardedSource, whole_piece
from smelt.formats.shards.torch_archive import TorchArchive, read_archive
from smelt.formats.source import Source, TensorInfo

__all__ = ["StateFile", "read_state_file"]

_LIST = "shadow_params"
_DEEPEST, _MOST = 12, 1_000_000


class StateFile:
    """A file that is more than a table of tensors."""

    def __init__(self, path: Path, archive: TorchArchive, tensors: Mapping[tuple[str, ...], StoredTensor]):
        self._path, self._archive = path, archive
        self._tensors = {".".join(keys): one for keys, one in tensors.items()}
        self._parts = _named(path, split_state({".".join(keys): keys for keys in tensors}, {}), self._tensors)

    @property
    def has_choice(self) -> bool:
        """Whether there is more than one set of weights."""
        return len(self._parts.parts) > 1

    def source(self, part: str | None) -> Source:
        """One part of it."""
        names, notes = self._parts.choose(str(self._path), part)
        found: dict[str, Pieces] = {}
        tied: dict[str, str] = {}
        first: dict[tuple[int, TensorInfo, tuple[int, ...] | None], str] = {}
        for name, key in names.items():
            one = self._tensors[key]
            position, strides = self._archive.place(one)
            twin = first.setdefault((position, TensorInfo(one.code, one.shape), strides), name)
            if twin != name and one.shape:
                tied[name] = twin
                continue
            found[name] = whole_piece(0, position, TensorInfo(one.code, one.shape), strides)
        source = ShardedSource(str(self._path), [self._path], found)
        source.tied, source.notes = tied, notes
        return source


def read_state_file(path: Path) -> StateFile | None:
    """None for what is a plain table of tensors, or no zip of torch.save."""
    try:
        archive = read_archive(path)
    except CorruptFile:
        return None  # whoever reads it as a plain table says what is wrong with it
    content = archive.content
    if not isinstance(content, Mapping):
        return None
    tensors = dict(_tensors(path, content))
    return StateFile(path, archive, tensors) if any(len(keys) > 1 for keys in tensors) else None


def _tensors(path: Path, content: Mapping[Any, Any]) -> Iterator[tuple[tuple[str, ...], StoredTensor]]:
    """Every tensor under the keys that lead to it; of lists only averaged weights."""
    level: list[tuple[tuple[str, ...], Any]] = [((), content)]
    seen = 0
    for _ in range(_DEEPEST):
        below: list[tuple[tuple[str, ...], Any]] = []
        for keys, node in level:
            inner = node.items() if isinstance(node, Mapping) else enumerate(node)
            for key, value in inner:
                seen += 1
                if seen > _MOST:
                    raise CorruptFile(f"{path}: its training state has more than {_MOST:,} entries")
                if isinstance(value, StoredTensor):
                    yield (*keys, str(key)), value
                elif isinstance(value, Mapping) or (key == _LIST and isinstance(value, list)):
                    below.append(((*keys, str(key)), value))
        level = below


def _named(path: Path, parts: StateParts, tensors: Mapping[str, StoredTensor]) -> StateParts:
    """Averaged weights that have numbers for names get those of the model's own."""
    averaged = parts.parts.get(EMA, {})
    if not averaged or not all(name.isdigit() for name in averaged):
        return parts
    own = next((names for part, names in parts.parts.items() if part != EMA), {})
    keys = [averaged[name] for name in sorted(averaged, key=int)]
    shapes = [tensors[key].shape for key in keys]
    if shapes != [tensors[key].shape for key in own.values()]:
        raise CorruptFile(
            f"{path}: its averaged weights are a list without names, and do not fit the {len(own):,} tensors of its "
            "model; save them with names"
        )
    named = dict(zip(own, keys, strict=True))
    return StateParts({**parts.parts, EMA: named}, parts.optimiser, parts.others)
