"""llama.cpp's own server, where it is installed: one that serves a GGUF file on this machine, gone afterwards."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["INSTALL", "llama_server", "serving_gguf"]

INSTALL = "sh tests/install-llama-cpp.sh"
_PLACE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "smelt-llama-cpp" / "llama-server"
_STARTS = 120.0
"""Seconds; a small model takes one."""


def llama_server() -> str | None:
    """The program: what SMELT_LLAMA_SERVER names, one on the path, or what the script has built."""
    named = os.environ.get("SMELT_LLAMA_SERVER")
    if named:
        return named
    return shutil.which("llama-server") or (str(_PLACE) if _PLACE.is_file() else None)


@contextmanager
def serving_gguf(program: str, model: Path, name: str, *, slots: int = 4, room: int = 2048) -> Iterator[str]:
    """The address of a server with that many places for texts of `room` tokens, once it is ready."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["-m", str(model), "--host", "127.0.0.1", "--port", str(port), "--alias", name]
    words += ["--parallel", str(slots), "-c", str(slots * room), "-t", "1"]
    server = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(f"http://127.0.0.1:{port}/health", server)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(timeout=30)


def _wait(page: str, server: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + _STARTS
    while time.monotonic() < end:
        if server.poll() is not None:
            raise RuntimeError(f"llama-server ended with {server.returncode} before it was ready")
        try:
            with urllib.request.urlopen(page, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise TimeoutError(f"llama-server was not ready after {_STARTS:g} s")
