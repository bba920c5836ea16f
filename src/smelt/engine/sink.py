"""Sinks: memory, or a folder that appears only when it is complete.

A disk run works in a hidden folder beside the output. Its shards are sized from the plan, blocks land at their
offsets, a journal notes finished tensors; when all is written, one rename makes it the output. Nothing waits
for the disk: after a power failure `smelt verify` tells whether all of it arrived.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from smelt.engine import dtype as dtypes
from smelt.engine.hashing import FollowingHash, hash_file
from smelt.engine.journal import Journal
from smelt.engine.manifest import MANIFEST
from smelt.engine.plan import Item, Plan
from smelt.engine.shards import INDEX_NAME, Shard, index_file, lay_out
from smelt.engine.ways import Sink
from smelt.errors import OutputError
from smelt.recipe.schema import parse_size

if TYPE_CHECKING:
    import torch

    from smelt.engine.header import TensorInfo

__all__ = ["FolderSink", "MemorySink", "OutputFolder", "check_output", "disk_full", "partial_folder"]


class MemorySink(Sink):
    """A state dict, filled block by block."""

    def __init__(self, plan: Plan, new: Callable[[TensorInfo], torch.Tensor] | None = None):
        self.state: dict[str, torch.Tensor] = {item.key: (new or _empty_tensor)(item.info) for item in plan.items}

    def write(self, item: Item, start: int, values: memoryview) -> None:
        given = dtypes.tensor_of(values, item.info.dtype)
        self.state[item.key].view(-1)[start : start + given.numel()].copy_(given)

    def done(self, item: Item) -> None:
        """Nothing to do: memory needs no journal."""


def _empty_tensor(info: TensorInfo) -> torch.Tensor:
    """Memory for a tensor."""
    import torch

    return torch.empty(info.shape, dtype=dtypes.torch_dtype(info.dtype))


class OutputFolder:
    """A folder in the making, hidden beside its place until it is complete. Locked: one run writes at a time."""

    def __init__(self, out: Path, fingerprint: str, *, resume: bool, force: bool):
        self._out, self._force = out, force
        self.path, self._old = partial_folder(out), _old(out)
        self.journal = Journal(self.path, fingerprint)
        try:
            self.finished: set[str] = (self.journal.finished() if resume else None) or set()
            if not self.finished:
                self.restart()
        except BaseException:
            self.journal.close()
            raise

    def restart(self) -> None:
        """Begin with nothing. The journal first: it must never speak of tensors that are not there any more."""
        self.finished = set()
        self.journal.start()
        _empty(self.path, keep=Journal.NAME)

    def put(self, name: str, content: bytes | Path) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.read_bytes() if isinstance(content, Path) else content)

    def complete(
        self,
        files: Mapping[str, bytes | Path],
        known: Mapping[str, tuple[str, int]],
        manifest: Callable[[Mapping[str, tuple[str, int]]], bytes],
    ) -> None:
        """Add the small files, write the manifest over everything (`known`: hashes at hand), and publish."""
        for name, content in files.items():
            self.put(name, content)
        hashes = dict(known)
        for path in self.path.rglob("*"):
            name = path.relative_to(self.path).as_posix()
            if path.is_file() and name not in hashes and name not in (Journal.NAME, MANIFEST):
                hashes[name] = (hash_file(path), path.stat().st_size)
        self.put(MANIFEST, manifest(hashes))
        self._publish()

    def close(self) -> None:
        self.journal.close()

    def discard(self) -> None:
        """Remove all of it: a run that cannot succeed leaves nothing behind."""
        self.close()
        shutil.rmtree(self.path, ignore_errors=True)

    def _publish(self) -> None:
        if self._out.exists() and not self._force and any(self._out.iterdir()):
            raise OutputError(f"{self._out} appeared while the merge ran; it is kept, and the result is in {self.path}")
        os.unlink(self.path / Journal.NAME)
        if self._out.exists():
            os.rename(self._out, self._old)
        os.rename(self.path, self._out)
        if self._old.exists():
            shutil.rmtree(self._old)


class FolderSink(Sink):
    """The weights of a model folder: shards of known size whose blocks land at their offsets."""

    def __init__(self, folder: OutputFolder, plan: Plan, metadata: Mapping[str, str]):
        self._folder = folder
        self._shards = lay_out(plan.items, parse_size(plan.recipe.shard_size))
        self._writers = [_ShardWriter(folder.path / shard.name, shard, metadata) for shard in self._shards]
        if folder.finished and not all(writer.intact for writer in self._writers):
            folder.restart()
        for writer in self._writers:
            writer.prepare(folder.finished)
        self._home = {key: number for number, shard in enumerate(self._shards) for key in shard.tensors}
        self._hash = FollowingHash([(writer.path, writer.size) for writer in self._writers])
        for number, writer in enumerate(self._writers):
            self._hash.final_up_to(number, writer.final)

    def write(self, item: Item, start: int, values: memoryview) -> None:
        self._writers[self._home[item.key]].write(item.key, start * dtypes.item_size(item.info.dtype), values)

    def done(self, item: Item) -> None:
        number = self._home[item.key]
        self._writers[number].done(item.key)
        self._folder.journal.done(item.key)
        self._hash.final_up_to(number, self._writers[number].final)

    def write_all(self, items: Sequence[Item], values: memoryview) -> None:
        """Those that are neighbours in a file too are written at once."""
        if len(items) == 1:
            self.write(items[0], 0, values)
            return
        begin = end = 0
        first, after = items[0].key, (-1, -1)
        for item in items:
            number = self._home[item.key]
            place = (number, self._writers[number].start(item.key))
            if place != after:
                if end > begin:
                    self._writers[self._home[first]].write_once(first, values[begin:end])
                first, begin = item.key, end
            end += item.info.nbytes
            after = (place[0], place[1] + item.info.nbytes)
        self._writers[self._home[first]].write_once(first, values[begin:end])

    def done_all(self, items: Sequence[Item]) -> None:
        numbers = [self._home[item.key] for item in items]
        for number, item in zip(numbers, items, strict=True):
            self._writers[number].done(item.key)
        self._folder.journal.done(*(item.key for item in items))
        for number in dict.fromkeys(numbers):
            self._hash.final_up_to(number, self._writers[number].final)

    def files(self) -> dict[str, bytes | Path]:
        """The index, where there are several shards."""
        return {INDEX_NAME: index_file(self._shards)} if len(self._shards) > 1 else {}

    def hashes(self) -> dict[str, tuple[str, int]]:
        """Name -> (SHA-256, bytes) of every shard, all of which are finished."""
        digests = self._hash.result()
        return {w.path.name: (digest, w.size) for w, digest in zip(self._writers, digests, strict=True)}

    def close(self) -> None:
        self._hash.stop()
        for writer in self._writers:
            writer.close()


class _ShardWriter:
    """One weights file, open only while tensors are being written to it."""

    def __init__(self, path: Path, shard: Shard, metadata: Mapping[str, str]):
        self.path = path
        self._head, self._offsets = shard.header(metadata)
        self.size = len(self._head) + sum(info.nbytes for info in shard.tensors.values())
        self._left = [(key, self._offsets[key] + info.nbytes) for key, info in reversed(list(shard.tensors.items()))]
        self._done: set[str] = set()
        self._lock = Lock()
        self._descriptor: int | None = None
        self.final = 0
        """Bytes from the front that have their last value."""

    @property
    def intact(self) -> bool:
        return self.path.is_file() and self.path.stat().st_size == self.size

    def prepare(self, finished: Collection[str]) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, self._head, 0)
            os.ftruncate(descriptor, self.size)
        finally:
            os.close(descriptor)
        self._done = set(finished)
        self._advance()

    def start(self, key: str) -> int:
        """Where a tensor begins in the file."""
        return self._offsets[key]

    def write(self, key: str, byte: int, view: memoryview) -> None:
        _write_at(self._open(), view, self._offsets[key] + byte)

    def write_once(self, key: str, view: memoryview) -> None:
        """From the tensor on, by a descriptor of its own: what is written together may lie in very many files."""
        descriptor = os.open(self.path, os.O_RDWR)
        try:
            _write_at(descriptor, view, self._offsets[key])
        finally:
            os.close(descriptor)

    def done(self, key: str) -> None:
        self._done.add(key)
        self._advance()
        if not self._left:
            self.close()

    def close(self) -> None:
        with self._lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _open(self) -> int:
        with self._lock:
            if self._descriptor is None:
                self._descriptor = os.open(self.path, os.O_RDWR)
            return self._descriptor

    def _advance(self) -> None:
        while self._left and self._left[-1][0] in self._done:
            self.final = self._left.pop()[1]


def _write_at(descriptor: int, view: memoryview, position: int) -> None:
    while len(view):
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written


def check_output(given: Path, inputs: Sequence[Path], *, force: bool, needed: int) -> None:
    """Refuse an output that would destroy something or cannot fit, before any work is done."""
    out = given.resolve()
    for path in inputs:
        real = path.resolve()
        if real == out or out in real.parents:
            raise OutputError(f"the output {given} holds an input ({path}); choose another folder")
    if out.exists() and not out.is_dir():
        raise OutputError(f"{given} is a file; the output is a folder")
    if os.path.ismount(out):
        raise OutputError(f"{given} is a mount point, which cannot be replaced as a whole; choose a folder inside it")
    _recover(out)
    if out.exists() and any(out.iterdir()) and not force:
        raise OutputError(f"{given} already exists; it is kept. Choose another folder, or write --force to replace it")
    parent = next(p for p in out.parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK):
        raise OutputError(f"{parent} cannot be written to")
    partial = partial_folder(out)
    held = sum(f.stat().st_blocks * 512 for f in partial.iterdir()) if partial.is_dir() else 0
    free = shutil.disk_usage(parent).free + held
    if free < needed:
        raise OutputError(f"the output needs {needed / 1e9:.2f} GB and {parent} has only {free / 1e9:.2f} GB free")


def disk_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def partial_folder(out: Path) -> Path:
    """Where a run works until its output is complete."""
    return out.parent / f".{out.name}.smelt-partial"


def _old(out: Path) -> Path:
    return out.parent / f".{out.name}.smelt-old"


def _recover(out: Path) -> None:
    """Undo a replacement that was killed between its two renames."""
    old = _old(out)
    if old.exists():
        Journal.refuse_if_busy(partial_folder(out))
        if out.exists():
            shutil.rmtree(old)
        else:
            os.rename(old, out)


def _empty(folder: Path, keep: str) -> None:
    for path in folder.iterdir():
        if path.name != keep:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
