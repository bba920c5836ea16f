"""Threads that hash files to their ends. Where there are more files than threads, each hashes two at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TypeAlias

from smelt.files.hashing.sha256 import FileHash, StopFlag, files_at_once, hash_both
from smelt.system.resources import usable_cores

__all__ = ["Begin", "HashPool"]

_MOST = 4
"""Threads: more than a disk likes to be read by, and few enough to leave cores for the rest."""
Begin: TypeAlias = Callable[[], FileHash]
"""Opens a file, or gives one whose hash is on its way."""


class HashPool:
    """They begin when they are made. What they find is in `futures`, in the order in which files were given."""

    def __init__(self, files: Iterable[Begin]):
        self._waiting = [(begin, Future[str]()) for begin in files]
        self.futures = [future for _, future in self._waiting]
        self._waiting.reverse()
        self._stop = StopFlag()
        count = min(_MOST, usable_cores(), len(self._waiting))
        self._each = files_at_once() if len(self._waiting) > count else 1
        self._threads = [threading.Thread(target=self._run, name="smelt-hash", daemon=True) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Leave off, if they are not done; who then asks for what was not found gets a CancelledError."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for future in self.futures:
            future.cancel()

    def _run(self) -> None:
        pair: list[tuple[FileHash, Future[str]]] = []
        try:
            while not self._stop.is_set() and self._fill(pair):
                if len(pair) == 2:
                    hash_both(pair[0][0], pair[1][0], self._stop)
                    pair.sort(key=lambda each: each[0].size - each[0].position)
                hash_, future = pair[0]
                found = hash_.finish(self._stop)
                if not self._stop.is_set():
                    future.set_result(found)
                    del pair[0]
        except BaseException as error:  # whoever waits has to know; what was hashed beside it is not worth keeping
            for _, future in pair:
                future.set_exception(error)
        finally:
            for hash_, _ in pair:
                hash_.close()

    def _fill(self, pair: list[tuple[FileHash, Future[str]]]) -> bool:
        """Take from those that wait until there are enough; False where there is nothing left to do."""
        while len(pair) < self._each:
            try:
                begin, future = self._waiting.pop()
            except IndexError:
                break
            try:
                pair.append((begin(), future))
            except OSError as error:
                future.set_exception(error)
        return bool(pair)
