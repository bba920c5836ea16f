"""One merge as a user would run it: in a process of its own, timed, its peak memory taken."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from smelt.errors import RecipeError, SmeltError
from smelt.files.reading import machine_fault
from smelt.files.remote_code import is_trusted

__all__ = ["MergedModel", "merge_in_process", "peak_of_process"]


@dataclass(frozen=True)
class MergedModel:
    """A merged model's folder, and what making it cost from the start of the process to its end."""

    folder: Path
    seconds: float
    peak_bytes: int


def merge_in_process(recipe: Path, out: Path, *, threads: int | None = None) -> MergedModel:
    """Merge a recipe file into a folder; whatever lay there is replaced."""
    words = [sys.executable, "-m", __name__, str(recipe), str(out), str(threads or 0), str(int(is_trusted()))]
    began = time.perf_counter()
    child = subprocess.run(words, capture_output=True, text=True, errors="replace")
    if child.returncode:
        message = child.stderr.strip()
        kind = RecipeError if child.returncode == RecipeError.exit_code else SmeltError
        raise kind(f"{recipe.name}: {message or f'the merge ended with {child.returncode}'}")
    return MergedModel(out, time.perf_counter() - began, int(child.stdout))


def _main(recipe: str, out: str, threads: str, trusted: str) -> int:
    """What that process runs: the merge, then the peak of its memory in bytes on stdout.

    It has to tell by itself: what the parent is told about a child (`ru_maxrss`) counts the parent's own memory at the
    moment of the fork.
    """
    from smelt.prepare.merge import merge
    from smelt.system.process import let_idle_threads_sleep, prefer_fast_sort

    let_idle_threads_sleep()
    prefer_fast_sort()
    try:
        merge(Path(recipe), out=out, threads=int(threads) or None, force=True, trust_remote_code=trusted == "1")
    except SmeltError as error:
        sys.stderr.write(str(error))
        return error.exit_code
    except (OSError, RecursionError, MemoryError, UnicodeError) as error:
        sys.stderr.write(machine_fault(error))
        return 1
    sys.stdout.write(f"{_peak()}\n")
    return 0


def _peak() -> int:
    import resource

    return peak_of_process() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on a Mac


def peak_of_process() -> int | None:
    """The most memory in bytes that this process had since its start, or since that was forgotten; Linux alone."""
    status = Path("/proc/self/status")
    if not status.exists():
        return None
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
