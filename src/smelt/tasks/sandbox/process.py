"""Processes of the sandbox, from outside: started with an order, listened to within limits, ended in time."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from smelt.tasks.sandbox.inside.channel import BEGIN
from smelt.tasks.sandbox.inside.plain import encode

__all__ = ["Process", "watch"]

_HERE = Path(__file__).parent
_MOST_OUTPUT = 1 << 20
"""Bytes of each stream."""
_START = 60.0
"""Seconds that processes may need to begin at all, on a busy machine; they are not the program's."""


class Process:
    """One process, and what it has said so far."""

    def __init__(self, order: dict[str, Any], *, stdin: bytes = b"", channel: Sequence[int] = ()):
        listen, mark = os.pipe()
        with _file(encode(order, _nothing_else)) as told, _file(stdin) as words:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-s", "-S", "-P", "-m", "inside", *map(str, (told.fileno(), mark, *channel))],
                    stdin=words,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=_ENVIRONMENT,
                    pass_fds=(told.fileno(), mark, *channel),
                    start_new_session=True,
                )
            finally:
                os.close(mark)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self.streams = {"stdout": self._process.stdout, "stderr": self._process.stderr, "mark": os.fdopen(listen, "rb")}
        self.said = {name: bytearray() for name in self.streams}

    @property
    def began(self) -> bool:
        """Whether it got as far as to begin with what it is for; before that nobody else's code has run."""
        return self.said["mark"].startswith(BEGIN)

    @property
    def full(self) -> bool:
        """Whether it said more than it may."""
        return any(len(said) > _MOST_OUTPUT for said in self.said.values())

    def hear(self, name: str) -> bool:
        """Take what a stream has to say; False where it has ended."""
        piece = os.read(self.streams[name].fileno(), 1 << 16)
        self.said[name] += piece
        return bool(piece)

    def text(self, name: str) -> str:
        """What a stream said, no more than it may."""
        return bytes(self.said[name][:_MOST_OUTPUT]).decode("utf-8", "replace")

    def wait(self, seconds: float) -> bool:
        """Whether it ends within this time."""
        try:
            self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return False
        return True

    def end(self) -> int:
        """Kill what is left of it, with its whole group, which has its number; the code that it ended with."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self.wait(5)
        for name, stream in self.streams.items():
            with contextlib.suppress(BlockingIOError), stream:
                os.set_blocking(stream.fileno(), False)
                while not self.full and self.hear(name):  # what it said last
                    pass
        self.streams.clear()
        return self._process.returncode if self._process.returncode is not None else -signal.SIGKILL

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def watch(processes: Sequence[Process], seconds: float) -> tuple[bool, float]:
    """Listen until the first has ended, one has said too much, or the time is over: whether it was, and what it took.

    The time counts from when all of them have begun.
    """
    first, began = processes[0], None
    until = time.monotonic() + _START
    with selectors.DefaultSelector() as streams:
        for process in processes:
            for name, stream in process.streams.items():
                streams.register(stream, selectors.EVENT_READ, (process, name))
        while any(key.data[0] is first for key in streams.get_map().values()):
            for key, _ in streams.select(max(0.0, until - time.monotonic())):
                process, name = key.data
                if not process.hear(name):
                    streams.unregister(key.fileobj)
            if began is None and all(process.began for process in processes):
                began = time.monotonic()
                until = began + seconds
            if time.monotonic() >= until or any(process.full for process in processes):
                break
    late = not any(process.full for process in processes) and not first.wait(until - time.monotonic())
    return late, time.monotonic() - (began or time.monotonic())


_ENVIRONMENT = {
    "PYTHONPATH": str(_HERE),
    "PYTHONHASHSEED": "0",
    "PYTHONUTF8": "1",
    "OPENSSL_CONF": os.devnull,
}


@contextlib.contextmanager
def _file(content: bytes) -> Iterator[IO[bytes]]:
    """An open file with this content, that has no name."""
    with tempfile.TemporaryFile(prefix="smelt-sandbox-") as file:
        file.write(content)
        file.seek(0)
        yield file


def _nothing_else(value: object) -> tuple[str, str]:
    raise TypeError(f"an order is plain data, not a {type(value).__name__}")
