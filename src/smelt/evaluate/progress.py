"""Progress of an evaluation: a bar on a terminal, a line per task in a log, nothing when quiet."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

__all__ = ["Watch"]


class Watch:
    """Counts pictures, task by task."""

    def __init__(self, quiet: bool = False):
        self._style = "none" if quiet else "bar" if sys.stderr.isatty() else "lines"
        self._bar: Any = None
        self._task: Any = None
        self._what, self._total = "", 0
        self._began = time.monotonic()

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def begin(self, what: str, total: int) -> None:
        """Another task, of so many pictures."""
        self._what, self._total, self._began = what, total, time.monotonic()
        if self._style == "bar":
            if self._bar is None:
                self._bar = _rich_bar()
                self._bar.start()
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(what, total=total)

    def advance(self, pictures: int) -> None:
        """So many more are done."""
        if self._bar is not None:
            self._bar.advance(self._task, pictures)

    def end(self, outcome: str) -> None:
        """The task is done, with this outcome."""
        if self._style == "lines":
            seconds = time.monotonic() - self._began
            sys.stderr.write(f"{self._what}: {outcome}, {self._total} pictures in {seconds:.1f} s\n")
            sys.stderr.flush()


def _rich_bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
