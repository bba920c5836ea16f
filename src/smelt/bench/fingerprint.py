"""What a suite's numbers depend on, in a few letters each: the models' weights and the tasks' files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from smelt.engine.hashing import file_hashes
from smelt.pool.modelpool import opened
from smelt.recipe.schema import Pool

if TYPE_CHECKING:
    from smelt.evaluate.find import AnyTask

__all__ = ["model_fingerprints", "task_fingerprint"]


def model_fingerprints(pool: Pool, *, allow_pickle: bool = False) -> dict[str, str]:
    """Every model by name, the base among them, with a hash over the files that its numbers come from."""
    with opened(pool, allow_pickle=allow_pickle) as models:
        return {name: _digest(source.files) for name, source in models.all.items()}


def task_fingerprint(task: AnyTask) -> str:
    """The version, and a hash over the task's folder: other classes, prompts or examples are another task.

    A task of the harness's own library has no folder: its version says what it is.
    """
    if not task.folder.parts:
        return str(task.version)
    files = [path for path in sorted(task.folder.rglob("*")) if path.is_file() and path.suffix != ".md"]
    return f"{task.version}-{_digest(files)}"


def _digest(files: Iterable[Path]) -> str:
    paths = list(files)
    hashes = file_hashes(paths)
    return hashlib.sha256("\n".join(hashes[path] for path in paths).encode()).hexdigest()[:16]
