"""mix.json: what a mixed model says of itself, checked when it is read, and the files that must lie beside it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

from smelt.errors import CorruptFile, RecipeError
from smelt.files.identity import file_hashes
from smelt.files.note import Note
from smelt.files.schema import Strict
from smelt.recipe.schema import DataBudget

__all__ = ["EXPERTS", "MODEL", "NOTE", "ROUTERS", "ROUTING", "TRACE", "MixNote", "mixed_folder"]

NOTE, MODEL, EXPERTS, ROUTERS = "mix.json", "model.safetensors", "experts.safetensors", "routers.safetensors"
TRACE, ROUTING = "trace.jsonl", "routing.json"


class Learning(Strict):
    """How the routers were learned, in short; the whole is in trace.jsonl."""

    steps: int = 0
    first: dict[str, float] = {}
    """The loss of each task in the first steps."""
    last: dict[str, float] = {}

    @classmethod
    def of(cls, trace: list[dict[str, Any]], some: int = 10) -> Learning:
        """The means over the first and the last few steps."""
        return cls(steps=len(trace), first=_means(trace[:some]), last=_means(trace[-some:]))


class MixNote(Note):
    """The content of mix.json."""

    file = NOTE
    called = "a mixed model's note"

    format: Literal["smelt-mix"] = "smelt-mix"
    version: Literal[1] = 1
    method: str
    family: str
    parameters: dict[str, Any]
    routed: str
    """The pattern of the modules that have a router."""
    experts: list[str]
    """In the order of the gates."""
    tasks: dict[str, str] = {}
    """The task whose examples each expert's router saw."""
    seed: int
    parents: dict[str, Any]
    learning: Learning = Learning()
    data_budget: DataBudget = DataBudget()
    sha256: dict[str, str]

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The note of a folder in which all files are there that it speaks of."""
        note = super().load(folder)
        missing = [name for name in (MODEL, EXPERTS, ROUTERS) if not (folder / name).is_file()]
        if missing:
            raise CorruptFile(f"{folder}: is a mixed model without {', '.join(missing)}; mix it again")
        return note

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The same, its files held against their hashes."""
        note = cls.read(folder)
        files = [folder / name for name in (MODEL, EXPERTS, ROUTERS)]
        changed = [path.name for path, found in file_hashes(files).items() if found != note.sha256.get(path.name)]
        if changed:
            raise CorruptFile(
                f"{folder}: {', '.join(sorted(changed))} is not the file that {NOTE} describes (SHA-256 differs); "
                "the folder is damaged, or its files are of different mixtures: mix it again"
            )
        return note

    def fault(self) -> str | None:
        unique = len(set(self.experts)) == len(self.experts)
        return None if self.experts and unique else f"experts: names, each once, got {self.experts}"


def mixed_folder(model: str | Path) -> Path:
    """The folder that a reference to a mixed model names."""
    from smelt.models.references import local_path

    folder = local_path(str(model))
    if folder is None or not (folder / NOTE).is_file():
        raise RecipeError(f"{model}: is not a mixed model (a folder with a {NOTE}, as `smelt mix` writes it)")
    return folder


def _means(lines: list[dict[str, Any]]) -> dict[str, float]:
    losses: list[Mapping[str, float]] = [line["loss"] for line in lines]
    return {task: sum(loss[task] for loss in losses) / len(losses) for task in (losses[0] if losses else {})}
