"""One merge as a user would run it: `smelt merge` in a process of its own, timed, its peak memory taken."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from smelt.errors import RecipeError, SmeltError
from smelt.files.remote_code import FLAG, is_trusted

__all__ = ["Merged", "merge_and_tell", "merge_apart"]

_COMMAND = [sys.executable, "-c", "from smelt.suites.merging import merge_and_tell; merge_and_tell()", "merge"]


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
    words += [FLAG] if is_trusted() else []
    began = time.perf_counter()
    child = subprocess.run(words, capture_output=True, text=True, errors="replace")
    if child.returncode:
        message = child.stderr.strip().removeprefix("smelt: ")
        kind = RecipeError if child.returncode == RecipeError.exit_code else SmeltError
        raise kind(f"{recipe.name}: {message or f'the merge ended with {child.returncode}'}")
    return Merged(out, time.perf_counter() - began, int(child.stdout))


def merge_and_tell() -> None:
    """What that process runs: the command line, then the peak of its memory in bytes on stdout.

    It has to tell by itself: what the parent is told about a child (`ru_maxrss`) counts the parent's own memory at the
    moment of the fork.
    """
    from smelt.cli import main

    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    sys.stdout.write(f"{_peak()}\n")


def _peak() -> int:
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on a Mac
