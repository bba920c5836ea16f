"""The progress of learning: a bar on a terminal, a line now and then in a log, nothing when quiet."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any

__all__ = ["Steps"]

_EVERY = 15.0


class Steps:
    """Told every line of a trace."""

    def __init__(self, steps: int, quiet: bool):
        self._steps = steps
        self._style = "none" if quiet else "bar" if sys.stderr.isatty() else "lines"
        self._said = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Steps:
        if self._style == "bar":
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TimeRemainingColumn(),
                console=Console(stderr=True),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("routers", total=self._steps)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def tell(self, line: dict[str, Any]) -> None:
        done, loss = line["step"] + 1, sum(line["loss"].values()) / len(line["loss"])
        if self._bar is not None:
            self._bar.update(self._task, completed=done, description=f"routers, mean loss {loss:.3f}")
        elif self._style == "lines" and (time.monotonic() - self._said > _EVERY or done == self._steps):
            self._said = time.monotonic()
            sys.stderr.write(f"step {done} of {self._steps}: mean loss {loss:.4f}, {line['seconds']:.2f} s a step\n")
            sys.stderr.flush()
