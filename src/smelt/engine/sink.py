"""Sinks: memory, or a folder that appears only when it is complete.

A disk run works in a hidden folder beside the output. Its shards are sized from the plan, blocks land at their
offsets, a journal notes finished tensors; when all is written, one rename makes it the output. Nothing waits
for the disk: after a power failure `smelt verify` tells whether all of it arrived.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from smelt.engine import dtype as dtypes
from smelt.engine.following import FollowingHash
from smelt.engine.hashing import hash_file
from smelt.engine.journal import Journal
from smelt.engine.manifest import MANIFEST
from smelt.engine.plan import Item, Plan
from smelt.engine.reserve import reserve
from smelt.engine.shards import INDEX_NAME, Shard, index_file, lay_out
from smelt.engine.ways import Sink
from smelt.errors import OutputError, shortened
from smelt.files.bounded import check_name, os_reason, read_bytes
from smelt.recipe.schema import parse_size

if TYPE_CHECKING:
    import torch

    from smelt.engine.header import TensorInfo

__all__ = ["FolderSink", "MemorySink", "OutputFolder", "check_output", "disk_full", "partial_folder"]
_LONGEST_NAME = 255
"""Bytes of a file's name, on all file systems in use."""


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
        path.write_bytes(read_bytes(content) if isinstance(content, Path) else content)

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
            writer.prepare()
        self._home = {key: number for number, shard in enumerate(self._shards) for key in shard.tensors}
        self._hash = FollowingHash([(writer.path, writer.size) for writer in self._writers])
        for number, writer in enumerate(self._writers):
            for start, end in writer.written(folder.finished):
                self._hash.found(number, start, end)

    def write(self, item: Item, start: int, values: memoryview) -> None:
        number = self._home[item.key]
        writer = self._writers[number]
        place = writer.start(item.key) + start * dtypes.item_size(item.info.dtype)
        writer.write(values, place)
        self._hash.wrote(number, place, place + len(values))

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
            self._hash.wrote(number, start, end)
            done += end - start

    def done_all(self, items: Sequence[Item]) -> None:
        for item in items:
            self._writers[self._home[item.key]].done(item.key)
        self._folder.journal.done(*(item.key for item in items))

    def files(self) -> dict[str, bytes | Path]:
        """The index, where there are several shards."""
        return {INDEX_NAME: index_file(self._shards)} if len(self._shards) > 1 else {}

    def hashes(self) -> dict[str, tuple[str, int]]:
        """Name -> (SHA-256, bytes) of every shard, all of which are finished."""
        digests = self._hash.result()
        return {w.path.name: (digest, w.size) for w, digest in zip(self._writers, digests, strict=True)}

    def close(self) -> None:
        self._hash.close()
        for writer in self._writers:
            writer.close()


class _ShardWriter:
    """One weights file, open only while tensors are being written to it."""

    def __init__(self, path: Path, shard: Shard, metadata: Mapping[str, str]):
        self.path = path
        self._head, self._offsets = shard.header(metadata)
        self._sizes = {key: info.nbytes for key, info in shard.tensors.items()}
        self.size = len(self._head) + sum(self._sizes.values())
        self._left = set(self._sizes)
        self._lock = Lock()
        self._descriptor: int | None = None

    @property
    def intact(self) -> bool:
        return self.path.is_file() and self.path.stat().st_size == self.size

    def prepare(self) -> None:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, self._head, 0)
            reserve(descriptor, self.size)
        finally:
            os.close(descriptor)

    def written(self, finished: Collection[str]) -> Iterator[tuple[int, int]]:
        """Where bytes have their last value: the header, and the tensors that an earlier run has finished."""
        yield 0, len(self._head)
        for key in self._left.intersection(finished):
            self._left.discard(key)
            yield self._offsets[key], self._offsets[key] + self._sizes[key]

    def start(self, key: str) -> int:
        """Where a tensor begins in the file."""
        return self._offsets[key]

    def write(self, view: memoryview, position: int) -> None:
        _write_at(self._open(), view, position)

    def write_once(self, view: memoryview, position: int) -> None:
        """By a descriptor of its own: what is written together may lie in very many files."""
        descriptor = os.open(self.path, os.O_RDWR)
        try:
            _write_at(descriptor, view, position)
        finally:
            os.close(descriptor)

    def done(self, key: str) -> None:
        self._left.discard(key)
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


def _write_at(descriptor: int, view: memoryview, position: int) -> None:
    while len(view):
        written = os.pwrite(descriptor, view, position)
        view, position = view[written:], position + written


def check_output(given: Path, inputs: Sequence[Path], *, force: bool, needed: int) -> None:
    """Refuse an output that would destroy something or cannot fit, before any work is done."""
    try:
        _check_output(given, inputs, force=force, needed=needed)
    except (OSError, RuntimeError) as error:  # pathlib says a loop of links by the latter
        reason = os_reason(error) if isinstance(error, OSError) else str(error)
        raise OutputError(f"{shortened(str(given))}: cannot be written there ({reason})") from None


def _check_output(given: Path, inputs: Sequence[Path], *, force: bool, needed: int) -> None:
    out = given.resolve()
    check_name(out, OutputError)
    if len(os.fsencode(partial_folder(out).name)) > _LONGEST_NAME:
        raise OutputError(f"{shortened(str(given))}: the name is too long, as a run works in one that is longer still")
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
