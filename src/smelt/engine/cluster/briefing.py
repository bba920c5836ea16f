"""What a worker must know of a merge, in texts that lie beside its output as long as it runs (board.py).

    merge.json       the recipe, the inputs as the driver saw them, the plan in short
    folds-N.txt      what the folds over the model have found so far

The driver writes them, workers read them once each. They say nothing about where a worker runs.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from smelt.engine.cluster.board import Board
from smelt.engine.cluster.parcels import to_text
from smelt.engine.plan.plan import Plan
from smelt.engine.run.cpu.machine import library
from smelt.files.identity import FileIdentity
from smelt.files.reading import parse_json
from smelt.files.remote.mounts import mount_name
from smelt.version import __version__

__all__ = ["Briefing", "names_of_inputs", "plan_in_short", "remove_briefing", "write_states"]

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
    stream: bool = False
    """Whether models of the Hugging Face hub are read from there and not fetched."""

    def write(self, board: Board) -> None:
        board.write(_NAME, json.dumps(asdict(self)))

    @classmethod
    def read(cls, board: Board) -> Briefing:
        said: Any = parse_json(board.read(_NAME).encode(), _NAME)
        return cls(**said)

    @property
    def identities(self) -> dict[str, FileIdentity]:
        return {name: FileIdentity(*words) for name, words in self.files.items()}


def names_of_inputs(plan: Plan) -> dict[Path, str]:
    """What the inputs are called on every machine: by their paths, and by their addresses where they lie on servers."""
    return {path: mount_name(path) for path in plan.inputs}


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


def write_states(board: Board, number: int, states: list[dict[str, Any]]) -> str:
    """What folds have found, for workers; the name of the text."""
    name = f"folds-{number}.txt"
    board.write(name, to_text(states))
    return name


def remove_briefing(board: Board) -> None:
    """Nothing of it stays with what a run leaves."""
    board.remove(_NAME, "folds-")
