"""Where every line of the table comes from: commands to make it again, hashes, data it used. Data, ready to print."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from smelt.evaluation.row import Row
from smelt.reporting.budget import data_text
from smelt.reporting.tables.grid import Line
from smelt.reporting.words import setting_text

__all__ = ["Origin", "Reproduction", "origins", "reproductions"]


@dataclass(frozen=True)
class Reproduction:
    """How to make one line again."""

    name: str
    setting: str
    commands: tuple[str, ...]
    recipe: str
    """As JSON; empty where nothing was merged."""


@dataclass(frozen=True)
class Origin:
    """What one model is, by its hashes, and what data its making used."""

    name: str
    setting: str
    model: str
    model_hash: str
    recipe_hash: str | None
    budget: str
    seed: int
    code: str
    device: str
    dtype: str
    when: str
    tasks: str


def reproductions(lines: Iterable[Line]) -> list[Reproduction]:
    """One entry per line of the table; several commands where a line was measured in several runs."""
    return [
        Reproduction(
            _name(line),
            setting_text(line.setting),
            tuple(dict.fromkeys(row.command for row in line.rows if row.command)),
            _recipe(line),
        )
        for line in lines
        if line.rows
    ]


def origins(lines: Iterable[Line], unit: str = "picture") -> list[Origin]:
    """One entry per model of the table, the experts one by one. `unit` is what data is counted in."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for line in lines:
        for row in line.rows:
            name = row.label if line.entry == "experts" else _name(line)
            found.setdefault((name, setting_text(row.setting), row.model_hash, str(row.seed)), []).append(row)
    return [_origin(name, rows, unit) for (name, *_), rows in found.items()]


def _origin(name: str, rows: list[Row], unit: str) -> Origin:
    last = rows[-1]
    return Origin(
        name,
        setting_text(last.setting),
        last.model,
        last.model_hash,
        last.recipe_hash,
        data_text(rows).replace("picture", unit) or "none",
        last.seed,
        _every(row.code for row in rows),
        _every(row.device for row in rows),
        _every(row.dtype for row in rows),
        max(row.when for row in rows),
        _every(f"{row.task}@{row.task_version}" for row in rows),
    )


def _name(line: Line) -> str:
    return f"{line.name}, {line.part}" if line.part else line.name


def _every(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _recipe(line: Line) -> str:
    recipe: dict[str, Any] | None = next((row.recipe for row in line.rows if row.recipe), None)
    return json.dumps(recipe, indent=2, ensure_ascii=False) if recipe else ""
