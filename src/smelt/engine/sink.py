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
from typing import TYPE_CHECKING

from smelt.engine import dtype as dtypes
from smelt.engine.hashing import FollowingHash, hash_file
from smelt.engine.journal import Journal
from smelt.engine.manifest import MANIFEST
from smelt.engine.plan import Item, Plan
from smelt.engine.shards import INDEX_NAME, Shard, index_file, lay_out
from smelt.errors import OutputError
from smelt.recipe.schema import parse_size

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["FolderSink", "MemorySink", "OutputFolder", "check_output", "disk_full"]


class MemorySink:
    """A state dict, filled block by block."""

    def __init__(self, plan: Plan):
        import torch

        self.state: dict[str, torch.Tensor] = {
            item.key: torch.empty(item.info.shape, dtype=dtypes.torch_dtype(item.info.dtype)) for item in plan.items
        }

    def write(self, item: Item, start: int, values: Tensor) -> None:
        self.state[item.key].view(-1)[start : start + values.numel()].copy_(values)

    def done(self, item: Item) -> None:
        """Nothing to do: memory needs no journal."""


class OutputFolder:
    """A folder in the making, hidden beside its place until it is complete. Locked, so that one run writes at a time."""

    def __init__(self, out: Path, fingerprint: str, *, resume: bool, force: bool):
        self._out, self._force = out, force
        self.path, self._old = _partial(out), _old(out)
        _recover(out)
        self.journal = Journal(self.path, fingerprint)
        self.finished: set[str] = (self.journal.finished() if resume else None) or set()
        if not self.finished:
            _empty(self.path, keep=Journal.NAME)
            self.journal.start()

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
        self.close()
        self._publish()

    def close(self) -> None:
        self.journal.close()

    def _publish(self) -> None:
        if self._out.exists():
            if not self._force and any(self._out.iterdir()):
                raise OutputError(
                    f"{self._out} appeared while the merge ran; it is kept, and the result is in {self.path}"
                )
            os.rename(self._out, self._old)
        os.rename(self.path, self._out)
        os.unlink(self._out / Journal.NAME)
        shutil.rmtree(self._old, ignore_errors=True)


class FolderSink:
    """A model folder in the making: shards whose blocks land at their offsets."""

    def __init__(self, folder: OutputFolder, plan: Plan, metadata: Mapping[str, str]):
        self._folder = folder
        self._shards = lay_out(plan.items, parse_size(plan.recipe.shard_size))
        self._files: dict[str, _ShardFile] = {}
        for shard in self._shards:
            file = _ShardFile(folder.path / shard.name, shard, metadata, folder.finished)
            self._files.update(dict.fromkeys(shard.tensors, file))

    def write(self, item: Item, start: int, values: Tensor) -> None:
        self._files[item.key].write(item.key, start, values)

    def done(self, item: Item) -> None:
        self._files[item.key].done(item.key)
        self._folder.journal.done(item.key)

    def files(self) -> dict[str, bytes | Path]:
        """The index, where there are several shards."""
        return {INDEX_NAME: index_file(self._shards)} if len(self._shards) > 1 else {}

    def hashes(self) -> dict[str, tuple[str, int]]:
        """Name -> (SHA-256, bytes) of every shard, all of which are finished."""
        return {file.name: file.result() for file in self._shard_files()}

    def close(self) -> None:
        for file in self._shard_files():
            file.close()
        self._files.clear()

    def _shard_files(self) -> list[_ShardFile]:
        return list(dict.fromkeys(self._files.values()))


class _ShardFile:
    """One weights file: sized at once, filled anywhere, hashed from the front as its tensors are finished."""

    def __init__(self, path: Path, shard: Shard, metadata: Mapping[str, str], finished: Collection[str]):
        self.name = shard.name
        head, self._offsets = shard.header(metadata)
        self._size = len(head) + sum(info.nbytes for info in shard.tensors.values())
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        os.pwrite(self._descriptor, head, 0)
        os.ftruncate(self._descriptor, self._size)
        self._left = [(key, self._offsets[key] + info.nbytes) for key, info in reversed(list(shard.tensors.items()))]
        self._done = set(finished)
        self._hash = FollowingHash(self._descriptor, self._size)

    def write(self, key: str, start: int, values: Tensor) -> None:
        import torch

        view = values.view(torch.uint8).numpy().data
        position = self._offsets[key] + start * values.element_size()
        while len(view):
            written = os.pwrite(self._descriptor, view, position)
            view, position = view[written:], position + written

    def done(self, key: str) -> None:
        self._done.add(key)
        end = None
        while self._left and self._left[-1][0] in self._done:
            end = self._left.pop()[1]
        if end is not None:
            self._hash.final_up_to(end)

    def result(self) -> tuple[str, int]:
        return self._hash.result(), self._size

    def close(self) -> None:
        self._hash.stop()
        os.close(self._descriptor)


def check_output(out: Path, inputs: Sequence[Path], *, force: bool, needed: int) -> None:
    """Refuse an output that would destroy something or cannot fit, before any work is done."""
    resolved = out.resolve()
    for path in inputs:
        real = path.resolve()
        if real == resolved or resolved in real.parents:
            raise OutputError(f"the output {out} holds an input ({path}); choose another folder")
    if out.exists() and not out.is_dir():
        raise OutputError(f"{out} is a file; the output is a folder")
    if out.exists() and any(out.iterdir()) and not force:
        raise OutputError(f"{out} already exists; it is kept. Choose another folder, or write --force to replace it")
    parent = next(p for p in resolved.parents if p.exists())
    if not os.access(parent, os.W_OK):
        raise OutputError(f"{parent} cannot be written to")
    partial = _partial(resolved)
    held = sum(f.stat().st_blocks * 512 for f in partial.iterdir()) if partial.exists() else 0
    free = shutil.disk_usage(parent).free + held
    if free < needed:
        raise OutputError(f"the output needs {needed / 1e9:.2f} GB and {parent} has only {free / 1e9:.2f} GB free")


def disk_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def _partial(out: Path) -> Path:
    return out.parent / f".{out.name}.smelt-partial"


def _old(out: Path) -> Path:
    return out.parent / f".{out.name}.smelt-old"


def _recover(out: Path) -> None:
    """Undo a replacement that was killed between its two renames."""
    old = _old(out)
    if old.exists():
        if out.exists():
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.rename(old, out)


def _empty(folder: Path, keep: str) -> None:
    for path in folder.iterdir():
        if path.name != keep:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
