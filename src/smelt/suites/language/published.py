"""The published numbers that a report may show beside its own, as data: `mergebench.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Paper", "PaperBase", "PaperTable", "mergebench"]

_FILE = Path(__file__).parent / "published.yaml"


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

    content: Mapping[str, Any] = load_yaml(_FILE, "paper's numbers")
    tables = {name: _table(one) for name, one in content["tables"].items()}
    return Paper(
        source=content["source"],
        methods=content["methods"],
        domains=content["domains"],
        bases={name: PaperBase(**words) for name, words in content["bases"].items()},
        trials=content["trials"],
        names=content["names"],
        **tables,
    )


def _table(content: Mapping[str, Any]) -> PaperTable:
    methods = content["methods"]
    lines = {base: dict(zip(methods, numbers, strict=True)) for base, numbers in content["lines"].items()}
    overall = dict(zip(methods, content["overall"], strict=True))
    return PaperTable(content["number"], content["title"], lines, overall)
