"""One merge as a user would run it: `smelt merge` in a process of its own, timed, its peak memory taken."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from smelt.errors import RecipeError, SmeltError

__all__ = ["Merged", "merge_apart"]

_COMMAND = [sys.executable, "-c", "from smelt.cli import process; process()", "merge"]


@dataclass(frozen=True)
class Merged:
    """A merged model's folder, and what making it cost from the start of the process to its end."""

    folder: Path
    seconds: float
    peak_bytes: int


def merge_apart(recipe: Path, out: Path, *, threads: int | None = None) -> Merged:
    """Merge a recipe file into a folder; whatever lay there is replaced."""
    words = [*_COMMAND, str(recipe), "-o", str(out), "--quiet", "--force"]
    words += ["--threads", str(threads)] if threads else []
    began = time.perf_counter()
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=said)
        try:
            _, status, used = os.wait4(child.pid, 0)
        except BaseException:
            child.kill()
            child.wait()
            raise
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        message = said.read().decode(errors="replace").strip().removeprefix("smelt: ")
    if child.returncode:
        kind = RecipeError if child.returncode == RecipeError.exit_code else SmeltError
        raise kind(f"{recipe.name}: {message or f'the merge ended with {child.returncode}'}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Merged(out, time.perf_counter() - began, used.ru_maxrss * unit)
