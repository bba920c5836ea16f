"""Progress: a bar on a terminal, a plain line now and then in a log, nothing when quiet."""

from __future__ import annotations

import sys
import time
from threading import Lock
from types import TracebackType
from typing import Any, Literal, TypeAlias

__all__ = ["Progress"]

_LOG_EVERY = 15.0
Unit: TypeAlias = Literal["bytes", "pictures", "examples", "questions", "requests", "files", "models"]


class Progress:
    """Implements the engine's Watcher. `advance` may be called from any thread."""

    def __init__(self, quiet: bool = False, unit: Unit = "bytes"):
        self._unit = unit
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
            self._bar = _rich_bar(self._unit)
            self._bar.start()
        if self._task is not None:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(what, total=self._total)

    def advance(self, amount: int) -> None:
        if self._style == "none":
            return
        with self._lock:
            self._done += amount
            if self._bar is not None:
                self._bar.update(self._task, completed=self._done)
            elif (now := time.monotonic()) - self._said > _LOG_EVERY:
                self._said = now
                self._line(now)

    def end(self, outcome: str) -> None:
        """What was begun is done, with this outcome: a line in a log."""
        if self._style == "lines":
            seconds = time.monotonic() - self._began
            sys.stderr.write(f"{self._what}: {outcome}, {self._total} {self._unit} in {seconds:.1f} s\n")
            sys.stderr.flush()

    def _line(self, now: float) -> None:
        rate = self._done / max(now - self._began, 1e-9)
        left = (self._total - self._done) / rate if rate else 0.0
        share = 100 * self._done / self._total
        speed = f"{rate / 1e6:.0f} MB/s" if self._unit == "bytes" else f"{rate:.0f} {self._unit}/s"
        sys.stderr.write(f"{self._what}: {share:.0f} % at {speed}, {left:.0f} s left\n")
        sys.stderr.flush()


def _rich_bar(unit: Unit) -> Any:
    from rich import progress
    from rich.console import Console

    amounts = (
        (progress.DownloadColumn(), progress.TransferSpeedColumn())
        if unit == "bytes"
        else (progress.MofNCompleteColumn(),)
    )
    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        *amounts,
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
