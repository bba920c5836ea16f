"""A result file that is written as it grows, and lines that say how far a benchmark has come."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path


def save(path: Path | None, results: Mapping[str, object]) -> None:
    """Written after each step, there whole or not at all, so that a long run can be stopped."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(path.name + ".tmp")
        draft.write_text(json.dumps(results, indent=1) + "\n")
        draft.replace(path)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
