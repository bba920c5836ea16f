"""Inputs: files that numbers are read from, on this machine or on a server, open for any number of threads."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from smelt.files.identity import FileIdentity, file_identity
from smelt.files.positioned import BINARY, fill
from smelt.files.remote.mounts import remote_file

if TYPE_CHECKING:
    from smelt.files.remote.remote_file import RemoteFile

__all__ = ["InputFile", "open_input"]


class InputFile(Protocol):
    """An open file."""

    path: Path

    @property
    def identity(self) -> FileIdentity:
        """Who it is; one on a server, who it was when its model was opened."""

    @property
    def descriptor(self) -> int | None:
        """For code that reads by itself; None where the file is not on this machine."""

    def fill(self, room: memoryview, position: int) -> bool:
        """Fill all of the room from this byte on; False where the file ends before."""

    def close(self) -> None: ...


def open_input(path: Path) -> InputFile:
    """A file where it lies; an OSError says why it cannot be opened."""
    remote = remote_file(path)
    return _Local(path) if remote is None else _Remote(path, remote)


class _Local(InputFile):
    """A file of this machine."""

    def __init__(self, path: Path):
        self.path = path
        self._descriptor: int | None = os.open(path, os.O_RDONLY | BINARY)

    @property
    def identity(self) -> FileIdentity:
        return file_identity(self.path)

    @property
    def descriptor(self) -> int | None:
        return self._descriptor

    def fill(self, room: memoryview, position: int) -> bool:
        assert self._descriptor is not None, "it is open"
        return fill(self._descriptor, room, position)

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)


class _Remote(InputFile):
    """A file on a server."""

    descriptor = None

    def __init__(self, path: Path, file: RemoteFile):
        self.path, self.file = path, file

    @property
    def identity(self) -> FileIdentity:
        return self.file.identity

    def fill(self, room: memoryview, position: int) -> bool:
        return self.file.fill(room, position)

    def close(self) -> None:
        """There is nothing to let go of: connections are shared."""
