"""The hashes of a merge's input files, made from the very bytes that are merged.

A thread that merges hashes what it reads (`hashing_reads`): whoever reads a file for it tells so (`note_read`), and the
vector machine, which reads files itself, is given their trees. What a merge does not need of a file, its header and
tensors that are left out, is read when the digests are asked for. So a first merge reads its inputs once.

Digests are remembered by the identity of their files; what is known is not hashed again.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from smelt.files.hashing.blake3 import DIGITS, TreeHash
from smelt.files.identity import FileIdentity, HashMemory, hub_hash

if TYPE_CHECKING:
    from smelt.files.input_file import InputFile

__all__ = ["FileDigest", "InputHashes", "hashing_reads", "note_read"]


class FileDigest(NamedTuple):
    """The hash of a file, and its SHA-256 where the cache of the Hugging Face hub says it."""

    blake3: str
    sha256: str | None = None

    def entry(self) -> dict[str, str]:
        """As manifests have it."""
        return {kind: digest for kind, digest in self._asdict().items() if digest is not None}


class InputHashes:
    """The digests of some files that are about to be read. For any number of threads, but `result`."""

    def __init__(self, files: Mapping[Path, FileIdentity], *, for_another: bool = False):
        """`files` as they were before they were read: one that changes meanwhile must not be known by what it was.

        `for_another`: they are hashed for another process (`packed`), which has said that it does not know them.
        """
        self._files, self._memory = files, HashMemory("blake3")
        self._known = {} if for_another else self._memory.known(files)
        self._trees = {
            (seen.device, seen.inode): TreeHash(seen.size) for path, seen in files.items() if path not in self._known
        }

    def tree_of(self, file: int | InputFile) -> TreeHash | None:
        """The tree of an input, or of an open file's descriptor, where it is one of these and not known."""
        if not self._trees:
            return None
        descriptor = file if isinstance(file, int) else file.descriptor
        if descriptor is None:
            assert not isinstance(file, int), "a descriptor is one"
            return self._trees.get((file.identity.device, file.identity.inode))
        about = os.fstat(descriptor)
        return self._trees.get((about.st_dev, about.st_ino))

    @property
    def unknown(self) -> list[Path]:
        """The files that are not known, and are hashed where they are read."""
        return [path for path in self._files if path not in self._known]

    def packed(self) -> dict[Path, bytes]:
        """What was hashed here since this was last asked, for `join` in the process that asks for the digests."""
        trees = {path: self._tree(path) for path in self.unknown}
        return {path: packed for path, tree in trees.items() if tree.has_some and (packed := tree.packed())}

    def join(self, packed: Mapping[Path, bytes]) -> None:
        """Take in what another process has hashed of these files."""
        for path, some in packed.items():
            if path not in self._known:
                self._tree(path).join(some)

    def _tree(self, path: Path) -> TreeHash:
        seen = self._files[path]
        return self._trees[seen.device, seen.inode]

    def placeholders(self) -> dict[Path, FileDigest]:
        """Digests as long as the right ones: what holds them has its size before they are known."""
        return {path: self._digest(path, "0" * DIGITS) for path in self._files}

    def result(self) -> dict[Path, FileDigest]:
        """The digests; what nobody has read until now is read."""
        new = {}
        for path in self._files:
            if path not in self._known:
                new[path] = self._tree(path).finish(path)
        self._memory.keep({path: (self._files[path], digest) for path, digest in new.items()})
        self._known |= new
        return {path: self._digest(path, self._known[path]) for path in self._files}

    @staticmethod
    def _digest(path: Path, blake3: str) -> FileDigest:
        return FileDigest(blake3, hub_hash(path))


_merging = threading.local()


@contextmanager
def hashing_reads(hashes: InputHashes | None) -> Iterator[None]:
    """What this thread reads in here is merged, and hashed."""
    before, _merging.hashes = getattr(_merging, "hashes", None), hashes
    try:
        yield
    finally:
        _merging.hashes = before


def note_read(file: int | InputFile, position: int, content: memoryview) -> None:
    """These bytes of an input (or of an open file) were read by this thread, from `position` on."""
    hashes: InputHashes | None = getattr(_merging, "hashes", None)
    tree = hashes.tree_of(file) if hashes is not None else None
    if tree is not None:
        tree.add(position, content)
