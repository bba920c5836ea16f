"""The outer side of the sandbox: start the process, feed it, listen within limits, end it, tell how it went."""

from __future__ import annotations

import contextlib
import os
import secrets
import select
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO, Literal, TypeAlias

from smelt.errors import RecipeError
from smelt.evaluate.sandbox.inside import BEGIN, NO_MEMORY, TOKEN

__all__ = ["Outcome", "Status", "run"]

Status: TypeAlias = Literal["ok", "error", "timeout", "memory", "output"]
"""`ok`: it ran to its last line; `error`: it raised, left early or was ended; the others name the limit it met."""

_INSIDE = Path(__file__).with_name("inside.py")
_MOST_OUTPUT = 1 << 20
"""Bytes of each stream."""
_START = 20.0
"""Seconds that a process may need to begin at all, on a busy machine; they are not the program's."""


@dataclass(frozen=True)
class Outcome:
    """How a program ended, what it wrote, and how long it took."""

    status: Status
    stdout: str
    stderr: str
    seconds: float


def run(code: str, *, stdin: str = "", seconds: float = 5, memory: int = 512 << 20) -> Outcome:
    """Run a Python program with the standard library alone; it ends within about `seconds`, whatever it does.

    It gets a folder of its own to write in, which is deleted, an empty environment, at most `memory` bytes of address
    space, no network and no other processes.
    """
    if seconds <= 0 or memory < 1 << 26:
        raise RecipeError(f"a sandbox needs some seconds and at least 64 MB, got {seconds} s and {memory} bytes")
    with tempfile.TemporaryDirectory(prefix="smelt-sandbox-", ignore_cleanup_errors=True) as folder:
        Path(folder, "program.py").write_text(code, encoding="utf-8", errors="surrogateescape")
        return _run(folder, stdin, seconds, memory)


def _run(folder: str, stdin: str, seconds: float, memory: int) -> Outcome:
    listen, mark = os.pipe()
    token = secrets.token_bytes(TOKEN)
    try:
        process = subprocess.Popen(
            [sys.executable, "-s", "-S", "-P", str(_INSIDE), folder, str(seconds), str(memory), str(mark)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env={"PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            pass_fds=(mark,),
            start_new_session=True,
        )
    finally:
        os.close(mark)
    try:
        streams = [_Listener(process, stream) for stream in (process.stdout, process.stderr)]
        feeder = Thread(target=_feed, args=(process.stdin, token + stdin.encode()), daemon=True)
        feeder.start()
        select.select([listen], [], [], _START)
        began = time.monotonic()
        try:
            process.wait(seconds)
            late = False
        except subprocess.TimeoutExpired:
            late = True
        took = time.monotonic() - began
        _end(process)
        for stream in streams:
            stream.join(1.0)
        ended = os.read(listen, 2 * TOKEN) == BEGIN + token  # nobody holds the other end any more, so this never waits
    finally:
        _end(process)
        os.close(listen)
    status = _status(process.returncode, late, ended, any(stream.full for stream in streams))
    stdout, stderr = (bytes(stream.content).decode("utf-8", "replace") for stream in streams)
    return Outcome(status, stdout, stderr, took)


def _status(code: int, late: bool, ended: bool, full: bool) -> Status:
    if full:
        return "output"
    if late or code == -signal.SIGXCPU:
        return "timeout"
    if code == NO_MEMORY:
        return "memory"
    return "ok" if ended and code == 0 else "error"


class _Listener(Thread):
    """Reads a stream to its end; past the limit it ends the process."""

    def __init__(self, process: subprocess.Popen[bytes], stream: IO[bytes] | None):
        super().__init__(daemon=True)
        assert stream is not None
        self._process, self._stream = process, stream
        self.content, self.full = bytearray(), False
        self.start()

    def run(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while piece := self._stream.read1(1 << 16):  # type: ignore[attr-defined]  # a pipe of Popen is buffered
                self.content += piece[: _MOST_OUTPUT - len(self.content)]
                if len(self.content) >= _MOST_OUTPUT:
                    self.full = True
                    _end(self._process)
                    return


def _feed(stream: IO[bytes] | None, content: bytes) -> None:
    assert stream is not None
    with contextlib.suppress(OSError, ValueError), stream:
        stream.write(content)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the whole group; it is a session of its own, so the group has the process's number."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(5)
