"""UQ-Merge's own tables as data: `uqmerge.yaml`. Methods go by the paper's names; numbers are percent, as printed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

__all__ = ["UqMerge", "uqmerge"]

_FILE = Path(__file__).parent / "published.yaml"


@dataclass(frozen=True)
class UqMerge:
    """Averages of the paper's Tables 1 to 6, and what is wrong with some of them."""

    source: str
    random: dict[str, list[float]]
    """Held-in, its spread, held-out, its spread: means over three random groups of seven."""
    all: dict[str, list[float]]
    chosen: list[float]
    joint: list[float]
    guidance: dict[str, float]
    steps: dict[str, list[float]]
    perturbations: dict[str, list[float]]
    methods: dict[str, list[float]]
    notes: dict[str, str]


@cache
def uqmerge() -> UqMerge:
    """Read once."""
    from smelt.recipe.read import load_yaml

    return UqMerge(**load_yaml(_FILE, "paper's numbers"))
