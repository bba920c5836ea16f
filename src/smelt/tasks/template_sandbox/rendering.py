"""The outer side: one process for all templates of this one, started when first needed and again after a limit."""

from __future__ import annotations

import atexit
import os
import pickle
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from smelt.errors import RecipeError, SmeltError
from smelt.tasks.template_sandbox.inside import LENGTH, MOST_TEXT

__all__ = ["TemplateFailed", "TemplateKind", "TemplateLimit", "render"]

TemplateKind: TypeAlias = Literal["task", "chat"]

SECONDS = 5.0
"""For one text. Ordinary ones take a thousandth of that; the rest is for busy machines."""
_START = 120.0
"""Seconds that a process may need to begin at all; they are not the template's."""
_INSIDE = Path(__file__).with_name("inside.py")
_SHOWN = 120


class TemplateFailed(RecipeError):
    """A template that cannot be rendered with these values."""


class TemplateLimit(TemplateFailed):
    """A template that does not come to an end within its limits."""


def render(
    template: str, values: Mapping[str, Any], *, kind: TemplateKind = "task", seconds: float | None = None
) -> str:
    """The text of a template, made in at most `seconds` (5, if nothing is said).

    `kind` is whose words it knows: those of the harness's tasks, or of chats.
    """
    seconds = SECONDS if seconds is None else seconds
    content = pickle.dumps((kind, template, _plain(values)))
    try:
        answer = _renderer.ask(content, seconds)
    except TimeoutError:
        raise TemplateLimit(f"the template {_shown(template)} is not done after {seconds:g} s") from None
    except EOFError:
        raise TemplateLimit(f"the template {_shown(template)} needs too much memory; its process ended") from None
    text = answer[1:].decode("utf-8", "surrogatepass")
    if answer[:1] != b"+":
        raise TemplateFailed(f"the template {_shown(template)}: {text}")
    return text


class _Renderer:
    """A process, and the pipes to it. Threads take turns; a process that was forked from this one starts its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def ask(self, content: bytes, seconds: float) -> bytes:
        """The answer; TimeoutError or EOFError where there is none, and then the process is gone."""
        with self._lock:
            process = self._process if self._owner == os.getpid() else None
            if process is None or process.poll() is not None:
                process = self._begin()
            try:
                return self._exchange(process, content, seconds)
            except BaseException:
                self._end()
                raise

    def _begin(self) -> subprocess.Popen[bytes]:
        self._process, self._owner = (
            subprocess.Popen(
                [sys.executable, "-I", str(_INSIDE)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # Ctrl-C is the run's, which then ends it
            ),
            os.getpid(),
        )
        try:
            self._exchange(self._process, pickle.dumps(sys.path), _START)
        except (TimeoutError, EOFError):
            self._end()
            raise SmeltError("the process that renders templates does not start") from None
        return self._process

    def _exchange(self, process: subprocess.Popen[bytes], content: bytes, seconds: float) -> bytes:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(len(content).to_bytes(LENGTH, "big"))
            view = memoryview(content)
            while view:
                view = view[process.stdin.write(view) :]
        except BrokenPipeError:
            raise EOFError from None
        until = time.monotonic() + seconds
        size = int.from_bytes(_read(process.stdout.fileno(), LENGTH, until), "big")
        if size > MOST_TEXT:
            raise EOFError
        return _read(process.stdout.fileno(), size, until)

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def close(self) -> None:
        """End the process, if there is one."""
        self._end()


_renderer = _Renderer()
atexit.register(_renderer.close)


def _read(pipe: int, size: int, until: float) -> bytes:
    found = bytearray()
    while len(found) < size:
        if not select.select([pipe], [], [], max(0.0, until - time.monotonic()))[0]:
            raise TimeoutError
        piece = os.read(pipe, min(size - len(found), 1 << 20))
        if not piece:
            raise EOFError
        found += piece
    return bytes(found)


def _plain(value: Any) -> Any:
    """A copy of nothing but plain data: other objects have methods that a sandbox does not know, so they come as text.

    A number of numpy is a number, an array a list.
    """
    if value is None or type(value) in (str, int, float, bool, bytes):
        return value
    if isinstance(value, Mapping):
        return {_plain(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_plain, value)) if type(value) in (list, tuple) else [_plain(one) for one in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    return str(value)


def _shown(template: str) -> str:
    line = " ".join(template.split())
    return repr(line if len(line) <= _SHOWN else line[:_SHOWN] + " …")
