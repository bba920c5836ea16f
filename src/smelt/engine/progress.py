"""Progress: a bar on a terminal, a plain line now and then in a log, nothing when quiet."""

from __future__ import annotations

import sys
import time
from threading import Lock
from types import TracebackType
from typing import Any

__all__ = ["Progress"]

_LOG_EVERY = 15.0


class Progress:
    """Implements the engine's Watcher. `advance` may be called from any thread."""

    def __init__(self, quiet: bool = False):
        self._style = "none" if quiet else "bar" if sys.stderr.isatty() else "lines"
        self._lock = Lock()
        self._bar: Any = None
        self._task: Any = None
        self._what, self._total, self._done = "", 0, 0
        self._began = self._said = time.monotonic()

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, what: str, total: int) -> None:
        self._what, self._total, self._done = what, max(total, 1), 0
        self._began = self._said = time.monotonic()
        if self._style != "bar":
            return
        if self._bar is None:
            self._bar = _rich_bar()
            self._bar.start()
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(what, total=self._total)

    def advance(self, nbytes: int) -> None:
        if self._style == "none":
            return
        with self._lock:
            self._done += nbytes
            if self._bar is not None:
                self._bar.update(self._task, completed=self._done)
            elif (now := time.monotonic()) - self._said > _LOG_EVERY:
                self._said = now
                self._line(now)

    def _line(self, now: float) -> None:
        rate = self._done / max(now - self._began, 1e-9)
        left = (self._total - self._done) / rate if rate else 0.0
        share = 100 * self._done / self._total
        sys.stderr.write(f"{self._what}: {share:.0f} % at {rate / 1e6:.0f} MB/s, {left:.0f} s left\n")
        sys.stderr.flush()


def _rich_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
