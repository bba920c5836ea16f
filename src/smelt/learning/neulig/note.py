"""neulig.json: what a folder with a fitted Portland says of itself, checked when it is read."""

from __future__ import annotations

import json
from typing import Any, Literal

from smelt.files.note import Note
from smelt.files.writing import OutputMark
from smelt.recipe.schema import DataBudget, Pool

__all__ = ["MARK", "NOTE", "NeuLigNote"]

NOTE = "neulig.json"
MARK = OutputMark(NOTE, ("smelt", "pool", "experts"))
"""By which the folder of a collaboration is known."""


class NeuLigNote(Note):
    """The content of neulig.json."""

    file = NOTE
    called = "the note of a collaboration"

    format: Literal["smelt-neulig"] = "smelt-neulig"
    version: Literal[1] = 1
    pool: Pool
    tasks: dict[str, str]
    """The task of every expert."""
    setting: dict[str, Any]
    chosen: int
    """The epoch that Portland is from."""
    losses: list[dict[str, float | int | None]]
    """Of every epoch, on the training and the validation pictures."""
    map: dict[str, dict[str, float]]
    """The CoopVec Map: data set, then expert."""
    data_budget: DataBudget
    experts: dict[str, str]
    """A hash over each expert's numbers, the base's among them."""
    allow_pickle: bool = False
    """Whether some of them are read from pickles, with weights_only."""

    def dump(self) -> bytes:
        return json.dumps(self.model_dump(mode="json"), indent=1).encode() + b"\n"
