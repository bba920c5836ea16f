"""neulig.json: what a folder with a fitted Portland says of itself, checked when it is read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from smelt.errors import CorruptFile
from smelt.files.json_reader import read_json
from smelt.files.replace import Mark
from smelt.files.schema import Strict, first_fault
from smelt.recipe.schema import Pool
from smelt.tasks.examples import DataBudget
from smelt.version import __version__

__all__ = ["MARK", "NOTE", "NeuLigNote", "is_collaboration"]

NOTE = "neulig.json"
MARK = Mark(NOTE, ("smelt", "pool", "experts"))
"""By which the folder of a collaboration is known."""


class NeuLigNote(Strict):
    """The content of neulig.json."""

    format: Literal["smelt-neulig"] = "smelt-neulig"
    version: Literal[1] = 1
    smelt: str = __version__
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

    @classmethod
    def load(cls, folder: Path) -> NeuLigNote:
        path = folder / NOTE
        try:
            return cls.model_validate(read_json(path))
        except ValidationError as error:
            raise CorruptFile(f"{path}: not the note of a collaboration ({first_fault(error)})") from None

    def save(self, folder: Path) -> None:
        (folder / NOTE).write_text(json.dumps(self.model_dump(mode="json"), indent=1) + "\n", encoding="utf-8")


def is_collaboration(model: Any) -> bool:
    """Whether a reference is a folder that `smelt neulig` wrote."""
    if not isinstance(model, str | Path):
        return False
    return (Path(str(model).removeprefix("dir:")) / NOTE).is_file()
