"""Ctrl-C that waits for the step to end, so that a whole state can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["patient_interrupt"]


@contextmanager
def patient_interrupt() -> Iterator[Callable[[], bool]]:
    """Gives what says whether Ctrl-C was pressed. It waits for the step to end; a second one does not wait."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        asked.set()
        signal.signal(signal.SIGINT, before)

    try:
        if callable(before):  # somebody asked for it to be ignored otherwise
            signal.signal(signal.SIGINT, note)
        yield asked.is_set
    finally:
        signal.signal(signal.SIGINT, before)
