"""Where a worker's merged numbers go: to their places in shards that the driver has made, with all other workers'.

Every byte belongs to one unit. A unit may be done twice (a worker that was thought dead, or was late): both write the
same bytes to the same place, so it does not matter who is first. Bytes are hashed here, and their trees handed to the
driver (`finish`).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from pathlib import Path

from smelt.engine.plan.plan import Item
from smelt.engine.sink.output import Journal
from smelt.engine.sink.sink import Sink
from smelt.errors import OutputError
from smelt.files.hashing.blake3 import TreeHash
from smelt.files.positioned import BINARY, FilePlace, write_fully
from smelt.formats.dtype import item_size

__all__ = ["PieceSink"]


class PieceSink(Sink):
    """The files of one unit after another; from any number of threads, but `begin` and `finish`."""

    def __init__(self, folder: Path, fingerprint: str, *, durable: bool):
        """`folder` is the partial one. With `durable`, what is written is on disk when a unit is finished: the driver's
        machine would not notice that this one lost it.
        """
        self._folder, self._fingerprint, self._durable = folder, fingerprint, durable
        self._files: dict[str, _Open] = {}
        self._where: Mapping[str, tuple[str, int]] = {}

    def begin(self, sizes: Mapping[str, int], where: Mapping[str, tuple[str, int]]) -> None:
        """The files that a unit writes to with their sizes, and for each tensor its file and first byte there."""
        self._where = where
        for name, size in sizes.items():
            self._files[name] = _Open(self._folder / "output" / name, size)
        if not Journal.belongs_to(
            self._folder, self._fingerprint
        ):  # asked when they are open: a new run makes new ones
            self.drop()
            raise OutputError(f"{self._folder} is no longer that of this merge; another run has begun there")

    def write(self, item: Item, start: int, values: memoryview) -> None:
        file, position = self._at(item, start)
        write_fully(file.descriptor, values, position)
        file.tree.add(position, values)

    def place_of(self, item: Item, start: int) -> FilePlace | None:
        file, position = self._at(item, start)
        return FilePlace(file.descriptor, position, file.tree.address or 0, ctypes.addressof(file.busy))

    def done(self, item: Item) -> None:
        """The driver keeps the journal."""

    def finish(self) -> dict[str, bytes]:
        """What was hashed of each file; all is written."""
        for file in self._files.values():
            if self._durable:
                os.fsync(file.descriptor)
        packed = {name: file.tree.packed() for name, file in self._files.items()}
        self.drop()
        return packed

    def drop(self) -> None:
        """Close the files."""
        for file in self._files.values():
            os.close(file.descriptor)
        self._files = {}

    def _at(self, item: Item, start: int) -> tuple[_Open, int]:
        name, first = self._where[item.key]
        return self._files[name], first + start * item_size(item.info.dtype)


class _Open:
    """A shard that this process writes pieces of. No room is reserved in it: others write there too."""

    def __init__(self, path: Path, size: int):
        self.tree = TreeHash(size)
        self.busy = ctypes.c_int32(0)
        self.descriptor = os.open(path, os.O_RDWR | BINARY)
