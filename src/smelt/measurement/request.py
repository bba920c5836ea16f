"""What both calls are given, checked: one task, a model's files, a format."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from smelt.errors import RecipeError, unknown

if TYPE_CHECKING:
    from smelt.files.identity import FileIdentity
    from smelt.tasks.task import Task

__all__ = ["ModelFiles", "model_files", "one_task", "stored_dtype"]


def one_task(task: str | Path | Task) -> Task:
    """The one task that is meant."""
    from smelt.tasks.registry import find_tasks

    found = find_tasks(task)
    if len(found) != 1:
        raise RecipeError(
            f"statistics are measured on one task at a time, got {len(found)}: {', '.join(one.name for one in found)}"
        )
    if not found[0].has_examples:
        raise RecipeError(f"{found[0].name} is {found[0].called}, on which nothing is measured; give another task")
    return found[0]


@dataclass(frozen=True)
class ModelFiles:
    """The files behind a reference; none for a model in memory."""

    hashes: dict[str, str] = field(default_factory=dict)
    """SHA-256 by name, remembered between runs."""
    seen: dict[Path, FileIdentity] = field(default_factory=dict)
    """All of them, small ones too, as they were when they were opened."""


def model_files(model: Any, allow_pickle: bool) -> ModelFiles:
    """To be asked for before the model is loaded: what changes from here on is noticed."""
    if not isinstance(model, str | Path):
        return ModelFiles()
    from smelt.formats.packs.source import base_hashes
    from smelt.formats.source import files_of
    from smelt.models.references import open_ref

    with closing(open_ref(str(model), allow_pickle=allow_pickle)) as source:
        return ModelFiles(base_hashes(source), files_of([source]))


def stored_dtype(dtype: str) -> Literal["F64", "F32"]:
    """The header's code for the numbers on disk."""
    codes: dict[str, Literal["F64", "F32"]] = {"float64": "F64", "float32": "F32"}
    if dtype not in codes:
        raise RecipeError(unknown("format of stored sums", dtype, codes))
    return codes[dtype]
