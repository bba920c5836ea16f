"""Printed tables along an axis (`series: [NAME]`): files `published/NAME.yaml`, with a number for each epoch or share.

    source: ..., table: ..., title: ..., notes: [...]
    axis: epoch                      # or fraction
    places: [1, 2, 3]
    lines: {original: {label: Own experts, entry: neulig-semi-original, level: merged, part: 7 experts, values: [...]}}

In the report every line stands beside ours: the mean over the tasks at the same place.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from smelt.files.schema import Strict
from smelt.suites.published import read_printed

__all__ = ["SeriesLine", "SeriesTable", "published_series"]

_FOLDER = Path(__file__).parent / "published"


class SeriesLine(Strict):
    """One printed line, and which of our rows it stands beside."""

    label: str
    entry: str
    level: Literal["merged", "ensembled"]
    part: str
    values: list[float]


class SeriesTable(Strict):
    """One printed table: lines down, places of the axis across, in percent."""

    source: str
    table: str
    title: str
    axis: Literal["epoch", "fraction"]
    places: Annotated[list[float], Field(min_length=1)]
    lines: Annotated[dict[str, SeriesLine], Field(min_length=1)]
    notes: list[str] = []

    @model_validator(mode="after")
    def _has_a_number_for_each_place(self) -> SeriesTable:
        for name, line in self.lines.items():
            if len(line.values) != len(self.places):
                raise ValueError(f"lines.{name}: {len(line.values)} values for {len(self.places)} places")
        return self


def published_series(names: Sequence[str]) -> list[SeriesTable]:
    """The tables of these names, read and checked."""
    return [read_printed(_FOLDER, name, SeriesTable) for name in names]
