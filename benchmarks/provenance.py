"""Where a result comes from: the machine, the code, the versions and the command line.

In: the tools that were run. Out: a dictionary for the head of a result file.
"""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tools import Tool


def provenance(tools: Iterable[Tool], seed: int) -> dict[str, object]:
    """All that a reader needs to judge or repeat the numbers."""
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", *sys.argv]),
        "seed": seed,
        "commit": _git("rev-parse", "HEAD"),
        "uncommitted_changes": bool(_git("status", "--porcelain")),
        "cpu": _field(Path("/proc/cpuinfo"), "model name") or platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "system": platform.platform(),
        "versions": {tool.name: tool.versions() for tool in tools},
    }


def _field(path: Path, name: str) -> str:
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _git(*words: str) -> str:
    here = Path(__file__).parent
    if shutil.which("git") is None:
        return ""
    answer = subprocess.run(["git", "-C", here, *words], capture_output=True, text=True, check=False)
    return answer.stdout.strip()
