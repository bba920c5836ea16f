"""What a run's folder says of its family of models: `analyses/family.json`, written by the plan, read by the report.

Name, size of what is merged, and which entries the family leaves out, with the reasons.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from smelt.engine.pool import opened
from smelt.errors import CorruptFile
from smelt.files.schema import Strict, first_fault
from smelt.formats.dtype import FLOATS
from smelt.recipe.patterns import chosen
from smelt.reporting.analyses import read_figure

if TYPE_CHECKING:
    from smelt.suites.clip.suite import ClipSuite

__all__ = ["FAMILY", "FamilyNote", "LeftOut", "family_note", "read_family"]

FAMILY = "family"
"""The name of its file."""
_NO_WEIGHTS = ("*.running_mean", "*.running_var")
"""Statistics of BatchNorm, which no training step changes by a gradient."""


class LeftOut(Strict):
    """One entry that a family does not run."""

    label: str
    reason: str


class FamilyNote(Strict):
    """One family of models of a suite that has several."""

    family: str
    parameters: int
    """Of the tensors that are merged: the picture tower."""
    convolutional: bool = False
    """Whether none of them is a matrix: a tower of convolutions."""
    left_out: dict[str, LeftOut] = {}


def family_note(suite: ClipSuite) -> FamilyNote | None:
    """What the folder is to say; None for a suite without families."""
    if suite.family is None:
        return None
    left = {name: LeftOut(label=suite.entries[name].label, reason=reason) for name, reason in suite.left_out.items()}
    shapes = _merged_shapes(suite)
    return FamilyNote(
        family=suite.family,
        parameters=sum(map(math.prod, shapes)),
        convolutional=all(len(shape) != 2 for shape in shapes),
        left_out=left,
    )


def _merged_shapes(suite: ClipSuite) -> list[tuple[int, ...]]:
    """Of the base's tensors that are merged, from its headers; neither counters nor statistics."""
    with opened(suite.pool, allow_pickle=suite.allow_pickle) as pool:
        return [
            info.shape
            for name, info in pool.reference.tensors.items()
            if chosen(name, suite.include, _NO_WEIGHTS) and info.dtype in FLOATS
        ]


def read_family(analyses: Path) -> FamilyNote | None:
    """Of a folder of analyses; None where there is no such file."""
    path = analyses / f"{FAMILY}.json"
    content = read_figure(path, "let the suite run again")
    if content is None:
        return None
    try:
        return FamilyNote.model_validate(content)
    except ValidationError as error:
        raise CorruptFile(f"{path}: {first_fault(error)}; let the suite run again") from None
