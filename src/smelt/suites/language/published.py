"""MergeBench's Tables 7 to 9 and its names of things, for reports that show its order beside their own.

Printed tables are files of `published/` (smelt.reporting.published): its Tables 10 to 17 by base model, 8 and 9 turned.
`published.yaml` has the rest: how its methods, domains and bases are called, and how many settings it tries.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from smelt.reporting.published import PublishedLine, PublishedTable

__all__ = ["Paper", "PaperBase", "PaperTable", "mergebench"]

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class PaperBase:
    """A base model of the paper: billions of parameters, `pretrained` or `instruct`."""

    size: float
    kind: str


@dataclass(frozen=True)
class PaperTable:
    """One printed table: base models down, methods across, in percent as printed."""

    number: int
    title: str
    lines: dict[str, dict[str, float]]
    """By base model, then by method."""
    overall: dict[str, float]
    """The paper's own last line."""


@dataclass(frozen=True)
class Paper:
    """MergeBench's Tables 7, 8 and 9. Methods go by our entries."""

    source: str
    methods: dict[str, str]
    domains: dict[str, str]
    bases: dict[str, PaperBase]
    trials: dict[str, int]
    multitask: PaperTable
    generalisation: PaperTable
    names: dict[str, str]


@cache
def mergebench() -> Paper:
    """Read once."""
    from smelt.recipe.read import load_yaml

    content: Mapping[str, Any] = load_yaml(_HERE / "published.yaml", "paper's names")
    tables = {name: _table(number) for name, number in content["tables"].items()}
    return Paper(
        source=content["source"],
        methods=content["methods"],
        domains=content["domains"],
        bases={name: PaperBase(**words) for name, words in content["bases"].items()},
        trials=content["trials"],
        names=content["names"],
        **tables,
    )


def _table(number: int) -> PaperTable:
    """Base models down again, as printed."""
    from smelt.recipe.read import load_yaml

    path = _HERE / "published" / f"mergebench-table-{number}.yaml"
    printed = PublishedTable.model_validate(load_yaml(path, "published table"))
    columns = {entry: _numbers(line) for entry, line in printed.lines.items()}
    lines = {
        base: {entry: numbers[place] for entry, numbers in columns.items()}
        for place, base in enumerate(printed.columns)
    }
    return PaperTable(number, printed.title, lines, {entry: numbers[-1] for entry, numbers in columns.items()})


def _numbers(line: PublishedLine) -> list[float]:
    return [float(value) for value in line.values if value is not None]
