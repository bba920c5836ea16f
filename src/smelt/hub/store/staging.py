"""Staging: folders in which something is made before it is moved to its place, and how those of the dead are known.

Every folder has a lock file beside it, which its process holds. The system lets go of it when the process ends, however
it ends; a lock that can be had is thus left over.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from smelt.files.writing import try_lock

__all__ = ["Staging"]

_LOCK = ".lock"
_NAME = re.compile(r"[0-9]+-[0-9a-f]{12}(\.lock)?")


class Staging:
    """The folder with all that is being made. `alone` gives the time in which nobody else looks at it."""

    def __init__(self, folder: Path, alone: Callable[[], AbstractContextManager[object]]):
        self.folder, self._alone = folder, alone

    @contextmanager
    def open(self) -> Iterator[Path]:
        """A folder for one piece of work; it is gone afterwards."""
        name = f"{os.getpid()}-{uuid.uuid4().hex[:12]}"
        lock, folder = self.folder / f"{name}{_LOCK}", self.folder / name
        with self._alone():
            self.folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
            try_lock(descriptor)
            folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            lock.unlink(missing_ok=True)
            os.close(descriptor)

    @property
    def empty(self) -> bool:
        """Whether nobody is making anything, dead or alive."""
        try:
            return next(os.scandir(self.folder), None) is None
        except FileNotFoundError:
            return True

    def dead(self) -> list[str]:
        """What processes that ended left behind. Only to be asked while one is alone."""
        names = {path.name.removesuffix(_LOCK) for path in self.folder.iterdir() if self.is_name(path.name)}
        return sorted(name for name in names if self._is_free(self.folder / f"{name}{_LOCK}"))

    def clear(self, name: str) -> None:
        """Remove what was left behind."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        (self.folder / f"{name}{_LOCK}").unlink(missing_ok=True)

    @staticmethod
    def is_name(name: str) -> bool:
        """Whether something in the folder is named as `open` names it."""
        return _NAME.fullmatch(name) is not None

    @staticmethod
    def _is_free(lock: Path) -> bool:
        try:
            descriptor = os.open(lock, os.O_RDWR)
        except FileNotFoundError:
            return True
        try:
            return try_lock(descriptor, 0)
        finally:
            os.close(descriptor)
