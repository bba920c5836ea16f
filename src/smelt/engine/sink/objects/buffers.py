"""Memory for parts of objects that are being filled or sent, within a limit; beyond it, temporary files."""

from __future__ import annotations

import mmap
import os
import tempfile
from threading import Condition

__all__ = ["PartBuffers"]


class PartBuffers:
    """Hands out room for parts. For any number of threads."""

    def __init__(self, limit: int):
        self.limit = limit
        self.most = self.spilled = 0
        """Bytes that were held in memory at once, at most, and that went to files in all."""
        self._held = self._leaving = 0
        self._room = Condition()

    def new(self, size: int, *, stays: bool = False) -> mmap.mmap:
        """Room for a part. Where memory is short it waits for parts that are on their way to the store; where none is,
        and for what `stays` until the end of the run when half of the memory is gone, a file takes it.
        """
        with self._room:
            most = self.limit // 2 if stays else self.limit
            while not stays and self._held + size > most and self._leaving:
                self._room.wait()
            if self._held + size <= most:
                self._held += size
                self.most = max(self.most, self._held)
                return mmap.mmap(-1, size)
            self.spilled += size
        with tempfile.TemporaryFile(prefix="smelt-part-") as file:
            file.truncate(size)
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, size)  # a full disk says so here; later it would kill the process
            return _Spilled(file.fileno(), size)

    def leaves(self, buffer: mmap.mmap) -> None:
        """It is being sent now, and will be given back."""
        if not isinstance(buffer, _Spilled):
            with self._room:
                self._leaving += len(buffer)

    def give_back(self, buffer: mmap.mmap, *, left: bool = True) -> None:
        """Nobody needs it any more. `left`: it was on its way to the store."""
        size = len(buffer)
        in_memory = not isinstance(buffer, _Spilled)
        buffer.close()
        if in_memory:
            with self._room:
                self._held -= size
                self._leaving -= size if left else 0
                self._room.notify_all()


class _Spilled(mmap.mmap):
    """Room in a file that has no name any more."""
