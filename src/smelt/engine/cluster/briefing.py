"""What a worker must know of a merge, in files that lie beside its journal as long as it runs.

    .OUT.smelt-partial/merge.json       the recipe, the inputs as the driver saw them, the plan in short
    .OUT.smelt-partial/folds-N.txt      what the folds over the model have found so far

The driver writes them, workers read them once each. They say nothing about where a worker runs.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smelt.engine.cluster.parcels import to_text
from smelt.engine.plan.plan import Plan
from smelt.engine.run.cpu.machine import library
from smelt.errors import OutputError
from smelt.files.identity import FileIdentity
from smelt.files.reading import read_json
from smelt.version import __version__

__all__ = ["Briefing", "inputs_by_name", "plan_in_short", "remove_briefing", "write_states"]

_NAME = "merge.json"


@dataclass(frozen=True)
class Briefing:
    """One merge, for those who help with it."""

    recipe: Mapping[str, Any]
    stated: bool
    relative_to: str
    fingerprint: str
    """Of the run, as the journal has it."""
    plan: str
    """The plan in short: what a worker plans must be the same."""
    files: Mapping[str, list[Any]]
    """Every input by its name, with its identity."""
    unknown: list[str]
    """Those that are to be hashed."""
    boot: str
    """Of the driver's machine."""
    threads: int | None
    memory: int | str | None

    def write(self, folder: Path) -> None:
        (folder / _NAME).write_text(json.dumps(asdict(self)), encoding="utf-8")

    @classmethod
    def read(cls, folder: Path) -> Briefing:
        path = folder / _NAME
        if not path.is_file():
            raise OutputError(f"{path} is not there; the merge is over, or this machine does not see its folder")
        return cls(**read_json(path))

    @property
    def identities(self) -> dict[str, FileIdentity]:
        return {name: FileIdentity(*words) for name, words in self.files.items()}


def inputs_by_name(plan: Plan) -> dict[str, Path]:
    """The inputs by what they are called on every machine."""
    return {str(path): path for path in plan.inputs}


def plan_in_short(plan: Plan) -> str:
    """The same on all machines that would make the same bytes of it."""
    items = [
        [item.key, item.info.dtype, item.info.shape, item.unit, item.input_space, item.output_space]
        + [[tap.model, tap.key] for tap in item.all_taps]
        + [[run.stage.name, run.pipeline, run.position] for run in item.stages]
        for item in plan.items
    ]
    words = [__version__, library() is not None, plan.recipe.hash, items]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()


def write_states(folder: Path, number: int, states: list[dict[str, Any]]) -> str:
    """What folds have found, for workers; the name of the file."""
    name = f"folds-{number}.txt"
    (folder / name).write_text(to_text(states))
    return name


def remove_briefing(folder: Path) -> None:
    """Nothing of it stays with what a run leaves."""
    for path in (folder / _NAME, *folder.glob("folds-*.txt")):
        with contextlib.suppress(OSError):
            path.unlink()
