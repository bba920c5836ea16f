"""Where the driver leaves words for its workers: beside the output, in a folder that all of them see or in the store.

.OUT.smelt-partial/NAME                a folder
.OUT.smelt-partial/workers/NAME        an object store
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Protocol

from smelt.errors import OutputError
from smelt.files.writing import url_scheme

__all__ = ["Board", "board_at", "is_in_store"]


class Board(Protocol):
    """Small texts by their names."""

    def write(self, name: str, text: str) -> None: ...

    def read(self, name: str) -> str:
        """Raises an OutputError where it is not there."""

    def remove(self, *beginnings: str) -> None:
        """Take away what is called so, or begins so."""


class _FolderBoard:
    def __init__(self, folder: Path):
        self._folder = folder

    def write(self, name: str, text: str) -> None:
        (self._folder / name).write_text(text, encoding="utf-8")

    def read(self, name: str) -> str:
        path = self._folder / name
        if not path.is_file():
            raise OutputError(f"{path} is not there; the merge is over, or this machine does not see its folder")
        return path.read_text(encoding="utf-8")

    def remove(self, *beginnings: str) -> None:
        for beginning in beginnings:
            for path in self._folder.glob(f"{beginning}*"):
                with contextlib.suppress(OSError):
                    path.unlink()


class _StoreBoard:
    def __init__(self, place: str):
        from smelt.engine.sink.objects.output import key_beside
        from smelt.files.object_store.place import object_place
        from smelt.files.object_store.store import open_store

        self._place = object_place(place)
        self._store = open_store(self._place)
        self._prefix = key_beside(self._place, "workers/")

    def write(self, name: str, text: str) -> None:
        self._store.put(self._prefix + name, text.encode())

    def read(self, name: str) -> str:
        from smelt.files.object_store.store import content_of

        content = content_of(self._store, self._prefix + name)
        if content is None:
            raise OutputError(f"{self._place}: {self._prefix}{name} is not there; the merge is over")
        return content.decode()

    def remove(self, *beginnings: str) -> None:
        with contextlib.suppress(OutputError):  # whoever makes the output whole takes them away, too
            for beginning in beginnings:
                for one in list(self._store.list_objects(self._prefix + beginning)):
                    self._store.delete(one.key)


def board_at(place: str) -> Board:
    """That of a folder beside an output, or of an output in a store."""
    return _StoreBoard(place) if is_in_store(place) else _FolderBoard(Path(place))


def is_in_store(place: str) -> bool:
    return url_scheme(place) is not None
