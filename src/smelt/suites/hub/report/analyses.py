"""What a hub suite left beside its rows, checked: growth of the hub, rank correlations, models over classes.

hub-growth.json    {k, tasks: {name: pictures}, methods: {name: {label, mean, low, high}}, ...}   one number per size
hub-ranks.json     {methods: {name: {label, spearman: {task: number}, kendall: {task: number}}}}
hub-classes.json   {task, classes, models: {name: [share right of each class]}}
hub-left-out.json  {models: {name: why it could not be loaded}, methods: {name: why there are no readers for it}}
hub-readers.json   {models: {name: the reader whose text tower it reads with, or null: its own}}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from smelt.errors import CorruptFile
from smelt.reporting.analyses import checked_table, read_figure

__all__ = ["Classes", "GrowthCurve", "GrowthLine", "HubAnalyses", "Ranks", "read_hub"]


@dataclass(frozen=True)
class GrowthLine:
    """One method: the average over the tasks for every size of the hub, over random orders."""

    label: str
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class GrowthCurve:
    """How accuracy grows with the hub, from one model to all of them."""

    k: int
    orders: int
    lines: dict[str, GrowthLine]

    @property
    def sizes(self) -> int:
        return len(next(iter(self.lines.values())).mean)


@dataclass(frozen=True)
class Ranks:
    """One method: how the order that it gives the models agrees with the true one, task by task."""

    label: str
    spearman: dict[str, float | None]
    kendall: dict[str, float | None]


@dataclass(frozen=True)
class Classes:
    """Models over the classes of one task."""

    task: str
    classes: tuple[str, ...]
    models: dict[str, tuple[float | None, ...]]


@dataclass(frozen=True)
class HubAnalyses:
    """The figures of a hub suite that are not rows."""

    growth: GrowthCurve | None = None
    ranks: dict[str, Ranks] | None = None
    classes: Classes | None = None
    left_out: dict[str, str] = field(default_factory=dict)
    """Models that could not be loaded, and methods that lack their readers, and why."""
    readers: dict[str, str | None] = field(default_factory=dict)
    """For every model the reader that methods with a reader have it read with; nothing where it is its own tower."""


def read_hub(folder: Path) -> HubAnalyses:
    """Read what is there of hub-growth.json, -ranks, -classes, -left-out and -readers in a folder."""
    growth, ranks, classes, left_out, readers = (
        read_figure(folder / f"hub-{name}.json", "let the suite run again")
        for name in ("growth", "ranks", "classes", "left-out", "readers")
    )
    missing: dict[str, Any] = {}
    for word, names in (left_out or {}).items():
        if word in ("models", "methods"):
            missing |= checked_table(names, folder / "hub-left-out.json", word)
    read_by = {} if readers is None else checked_table(readers.get("models"), folder / "hub-readers.json", "models")
    return HubAnalyses(
        None if growth is None else _growth(growth, folder / "hub-growth.json"),
        None if ranks is None else _ranks(ranks, folder / "hub-ranks.json"),
        None if classes is None else _classes(classes, folder / "hub-classes.json"),
        {str(name): str(why) for name, why in missing.items()},
        {str(name): None if ref is None else str(ref) for name, ref in read_by.items()},
    )


def _growth(content: Mapping[str, Any], path: Path) -> GrowthCurve:
    methods = checked_table(content.get("methods"), path, "methods")
    lines = {}
    for name, one in methods.items():
        numbers = [_numbers(one.get(word), path, f"methods.{name}.{word}") for word in ("mean", "low", "high")]
        lines[name] = GrowthLine(str(one.get("label") or name), *numbers)
    if len({len(values) for one in lines.values() for values in (one.mean, one.low, one.high)}) != 1:
        raise CorruptFile(f"{path}: every method should have as many numbers as the hub has models")
    return GrowthCurve(int(content.get("k", 1)), len(content.get("orders") or ()), lines)


def _ranks(content: Mapping[str, Any], path: Path) -> dict[str, Ranks]:
    found = {}
    for name, one in checked_table(content.get("methods"), path, "methods").items():
        words = [checked_table(one.get(word), path, f"methods.{name}.{word}") for word in ("spearman", "kendall")]
        found[name] = Ranks(str(one.get("label") or name), *words)
    return found


def _classes(content: Mapping[str, Any], path: Path) -> Classes:
    classes, models = content.get("classes"), checked_table(content.get("models"), path, "models")
    if not isinstance(classes, list) or any(not isinstance(m, list) or len(m) != len(classes) for m in models.values()):
        raise CorruptFile(f"{path}: every one of `models` should have a number for each of `classes`")
    rows = {str(name): tuple(row) for name, row in models.items()}
    return Classes(str(content.get("task") or ""), tuple(map(str, classes)), rows)


def _numbers(value: Any, path: Path, where: str) -> tuple[float, ...]:
    if not isinstance(value, list) or not all(isinstance(one, int | float) for one in value):
        raise CorruptFile(f"{path}: `{where}` should be a list of numbers")
    return tuple(map(float, value))
