"""Sinks: memory, or the weights files of a folder in the making (output.py).

Shards are laid out from the plan (shards.py), blocks land at their offsets, a journal notes finished tensors.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain, zip_longest
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol

from smelt.engine.plan.plan import Item, Plan
from smelt.engine.sink.output import OutputFolder
from smelt.engine.sink.shards import Shard, index_files
from smelt.files.hashing.blake3 import TreeHash
from smelt.files.positioned import BINARY, FilePlace, write_fully
from smelt.files.writing import reserve
from smelt.formats import dtype as dtypes

if TYPE_CHECKING:
    import torch

    from smelt.formats.source import TensorInfo

__all__ = ["FolderSink", "MemorySink", "Sink"]

_AHEAD = 1 << 28
"""Bytes of a file for which there is room before they are written, at least, and at most twice as many: a run that is
killed leaves no more."""
_RUN = 1 << 23
"""Bytes of one shard that are merged before those of the next."""
_AT_ONCE = 8
"""Shards that are written at once."""


class Sink(Protocol):
    """Where merged numbers go."""

    memory: int = 0
    """Bytes that it may hold."""

    def write(self, item: Item, start: int, values: memoryview) -> None:
        """Take the elements of a tensor from `start` on, in its output dtype. Called from any thread."""

    def place_of(self, item: Item, start: int) -> FilePlace | None:
        """Where these elements belong in a file, for whoever writes and hashes them itself; None: nowhere."""
        return None

    def in_good_order(self, items: Sequence[Item]) -> Sequence[Item]:
        """The order in which tensors are best merged."""
        return items

    def done(self, item: Item) -> None:
        """All of the tensor is written. Called from one thread."""

    def write_all(self, items: Sequence[Item], values: memoryview) -> None:
        """Take whole tensors that lie one after the other. Called from any thread."""
        begin = 0
        for item in items:
            self.write(item, 0, values[begin : begin + item.info.nbytes])
            begin += item.info.nbytes

    def done_all(self, items: Sequence[Item]) -> None:
        """All of these tensors are written. Called from one thread."""
        for item in items:
            self.done(item)


class MemorySink(Sink):
    """A state dict, filled block by block."""

    def __init__(self, plan: Plan, new: Callable[[TensorInfo], torch.Tensor] | None = None):
        self.state: dict[str, torch.Tensor] = {one.key: (new or _empty_tensor)(one.info) for one in plan.stored_tensors}
        self._places = plan.places

    def write(self, item: Item, start: int, values: memoryview) -> None:
        given = dtypes.tensor_of(values, item.info.dtype)
        stored, first = self._places[item.key]
        self.state[stored].view(-1)[first + start : first + start + given.numel()].copy_(given)

    def done(self, item: Item) -> None:
        """Nothing to do: memory needs no journal."""


def _empty_tensor(info: TensorInfo) -> torch.Tensor:
    """Memory for a tensor."""
    import torch

    return torch.empty(info.shape, dtype=dtypes.torch_dtype(info.dtype))


class FolderSink(Sink):
    """The weights of a model folder: shards of known size whose blocks land at their offsets.

    Headers come last: they hold hashes that are known when everything is merged.
    """

    def __init__(self, folder: OutputFolder, plan: Plan, metadata: Mapping[str, str]):
        """`metadata` is as long as what `complete` will be given."""
        self._folder = folder
        self._shards = folder.shards(plan)
        self._writers = [_ShardWriter(folder.path / shard.name, shard, metadata) for shard in self._shards]
        home = {key: number for number, shard in enumerate(self._shards) for key in shard.tensors}
        self._home = {key: home[stored] for key, (stored, _) in plan.places.items()}
        for item in plan.items:
            self._writers[self._home[item.key]].expect(item, *plan.places[item.key])
        if folder.finished and not all(writer.intact for writer in self._writers):
            folder.restart()
        for writer in self._writers:
            writer.prepare(folder.finished)

    def write(self, item: Item, start: int, values: memoryview) -> None:
        writer = self._writers[self._home[item.key]]
        writer.write(values, writer.start(item.key) + start * dtypes.item_size(item.info.dtype))

    def place_of(self, item: Item, start: int) -> FilePlace | None:
        writer = self._writers[self._home[item.key]]
        return writer.place(writer.start(item.key) + start * dtypes.item_size(item.info.dtype))

    def in_good_order(self, items: Sequence[Item]) -> Sequence[Item]:
        """Some of each shard in turn: a file system lets one thread at a time write to a file."""
        runs: list[list[list[Item]]] = [[] for _ in self._shards]
        room = 0
        for item in items:
            mine = runs[self._home[item.key]]
            if not mine or room <= 0:
                mine.append([])
                room = _RUN
            mine[-1].append(item)
            room -= item.info.nbytes
        turns = (zip_longest(*runs[first : first + _AT_ONCE], fillvalue=()) for first in range(0, len(runs), _AT_ONCE))
        return [item for turn in turns for run in chain.from_iterable(turn) for item in run]

    def done(self, item: Item) -> None:
        self.done_all([item])

    def write_all(self, items: Sequence[Item], values: memoryview) -> None:
        """Those that are neighbours in a file too are written at once."""
        if len(items) == 1:
            self.write(items[0], 0, values)
            return
        runs: list[tuple[int, int, int]] = []  # of each the file, and where it begins and ends there
        for item in items:
            number = self._home[item.key]
            start = self._writers[number].start(item.key)
            if runs and runs[-1][0] == number and runs[-1][2] == start:
                start = runs.pop()[1]
            runs.append((number, start, self._writers[number].start(item.key) + item.info.nbytes))
        done = 0
        for number, start, end in runs:
            self._writers[number].write_once(values[done : done + end - start], start)
            done += end - start

    def done_all(self, items: Sequence[Item]) -> None:
        for item in items:
            self._writers[self._home[item.key]].done(item.key)
        self._folder.journal.done(*(item.key for item in items))

    def located(self, key: str) -> tuple[str, int]:
        """The file of a merged tensor and the byte at which it begins there, for other processes that write it."""
        number = self._home[key]
        return self._shards[number].name, self._writers[number].start(key)

    @property
    def sizes(self) -> dict[str, int]:
        """How many bytes each weights file has."""
        return {shard.name: writer.size for shard, writer in zip(self._shards, self._writers, strict=True)}

    def join_hashes(self, packed: Mapping[str, bytes]) -> None:
        """Take in what another process has hashed of the files that it wrote to."""
        for shard, writer in zip(self._shards, self._writers, strict=True):
            if shard.name in packed:
                writer.join_hash(packed[shard.name])

    def files(self) -> dict[str, bytes | Path]:
        """The index, where there are several shards."""
        return dict(index_files(self._shards))

    def complete(self, metadata: Mapping[str, str]) -> dict[str, tuple[str, int]]:
        """Write the headers of the shards, all of whose tensors are there; name -> (BLAKE3, bytes) of each."""
        made = zip(self._shards, self._writers, strict=True)
        return {shard.name: (writer.complete(metadata), writer.size) for shard, writer in made}

    def close(self) -> None:
        for writer in self._writers:
            writer.close()


class _ShardWriter:
    """One weights file, open only while tensors are being written to it. What is written is hashed."""

    def __init__(self, path: Path, shard: Shard, metadata: Mapping[str, str]):
        self.path, self._shard = path, shard
        head, self._offsets = shard.header(metadata)
        self._head_size = len(head)
        self.size = self._head_size + sum(info.nbytes for info in shard.tensors.values())
        self._starts: dict[str, int] = {}
        self._left: set[str] = set()
        self._lock = Lock()
        self._descriptor: int | None = None
        self._reserved = 0
        self._tree = TreeHash(self.size)
        self._busy = ctypes.c_int32(0)

    @property
    def intact(self) -> bool:
        return self.path.is_file() and self.path.stat().st_size == self.size

    def expect(self, item: Item, stored: str, first: int) -> None:
        """A merged tensor that this file holds: all of a stored one, or of its elements those from `first` on."""
        self._starts[item.key] = self._offsets[stored] + first * dtypes.item_size(item.info.dtype)
        self._left.add(item.key)

    def prepare(self, finished: Collection[str]) -> None:
        """Make the file, without room for what is to come. Those tensors are there that an earlier run has finished."""
        self._left.difference_update(finished)
        self.path.parent.mkdir(exist_ok=True)
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | BINARY, 0o644)
        try:
            os.ftruncate(descriptor, self.size)
        finally:
            os.close(descriptor)

    def start(self, key: str) -> int:
        """Where a merged tensor begins in the file."""
        return self._starts[key]

    def place(self, position: int) -> FilePlace:
        return FilePlace(self._open(position), position, self._tree.address or 0, ctypes.addressof(self._busy))

    def write(self, view: memoryview, position: int) -> None:
        write_fully(self._open(position), view, position)
        self._tree.add(position, view)

    def write_once(self, view: memoryview, position: int) -> None:
        """By a descriptor of its own: what is written together may lie in very many files."""
        descriptor = os.open(self.path, os.O_RDWR | BINARY)
        try:
            write_fully(descriptor, view, position)
        finally:
            os.close(descriptor)
        self._tree.add(position, view)

    def join_hash(self, packed: bytes) -> None:
        self._tree.join(packed)

    def complete(self, metadata: Mapping[str, str]) -> str:
        """Write the header; the hash of the file."""
        head, _ = self._shard.header(metadata)
        assert len(head) == self._head_size, "tensors lie behind a header of this length"
        self.write_once(memoryview(head), 0)
        return self._tree.finish(self.path)

    def done(self, key: str) -> None:
        self._left.discard(key)
        if not self._left:
            self.close()

    def close(self) -> None:
        with self._lock:
            # Forgotten first: a Ctrl-C that comes right after it is closed has it closed once more.
            descriptor, self._descriptor = self._descriptor, None
            if descriptor is not None:
                os.close(descriptor)

    def _open(self, position: int) -> int:
        """The open file, with room for what is written from this byte on."""
        with self._lock:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_RDWR | BINARY)
            if position + _AHEAD > self._reserved and self._reserved < self.size:
                more = min(self.size, max(self._reserved, position) + 2 * _AHEAD)
                reserve(self._descriptor, self._reserved, more)
                self._reserved = more
            return self._descriptor
