"""Where numbers come from: commands to make every line again, hashes, data it used, and what all rows share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from smelt.evaluation.row import Row
from smelt.reporting.tables.lines import EXPERTS, LineReader, TableLine
from smelt.reporting.words import setting_text

__all__ = ["ModelOrigin", "Reproduction", "facts", "is_zoo", "origins", "reproductions", "suite_name"]


@dataclass(frozen=True)
class Reproduction:
    """How to make one line again."""

    name: str
    setting: str
    commands: tuple[str, ...]
    recipe: str
    """As JSON; empty where nothing was merged."""


@dataclass(frozen=True)
class ModelOrigin:
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


def reproductions(lines: Iterable[TableLine]) -> list[Reproduction]:
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


def origins(lines: Iterable[TableLine], reader: LineReader) -> list[ModelOrigin]:
    """One entry per model of the table, the experts one by one. The reader says what data made it."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for line in lines:
        for row in line.rows:
            name = row.label if line.entry == EXPERTS else _name(line)
            found.setdefault((name, setting_text(row.setting), row.model_hash, str(row.seed)), []).append(row)
    return [_origin(name, rows, reader.data(rows)) for (name, *_), rows in found.items()]


def _origin(name: str, rows: list[Row], data: str) -> ModelOrigin:
    last = rows[-1]
    return ModelOrigin(
        name,
        setting_text(last.setting),
        last.model,
        last.model_hash,
        last.recipe_hash,
        data or "none",
        last.seed,
        _every(row.code for row in rows),
        _every(row.device for row in rows),
        _every(row.dtype for row in rows),
        max(row.when for row in rows),
        _every(f"{row.task}@{row.task_version}" for row in rows),
    )


def _name(line: TableLine) -> str:
    return f"{line.name}, {line.part}" if line.part else line.name


def _every(values: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(values))


def _recipe(line: TableLine) -> str:
    recipe: dict[str, Any] | None = next((row.recipe for row in line.rows if row.recipe), None)
    return json.dumps(recipe, indent=2, ensure_ascii=False) if recipe else ""


def suite_name(rows: Iterable[Row]) -> str | None:
    """The suite of the rows, if they are of one."""
    return next((row.suite for row in rows if row.suite), None)


def is_zoo(rows: Iterable[Row]) -> bool:
    """Whether any model is one of those that come with Smelt."""
    return any(row.model.startswith("zoo:") for row in rows)


def facts(rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    """Device, precision, seed, code version and time, as (name, text)."""

    def every(values: Iterable[object]) -> str:
        return ", ".join(sorted({str(value) for value in values}))

    days = sorted(row.when for row in rows)
    return (
        ("Device", every(row.device for row in rows) + _merged_elsewhere(rows)),
        ("Precision", every(row.dtype for row in rows)),
        ("Seed", every(row.seed for row in rows)),
        ("Code", every(row.code for row in rows)),
        ("Measured", days[0][:10] if days[0][:10] == days[-1][:10] else f"{days[0][:10]} to {days[-1][:10]}"),
    )


def _merged_elsewhere(rows: Iterable[Row]) -> str:
    """A row's device is where the model was evaluated; a suite merges on the CPU whatever that is."""
    other = any(row.suite and row.variant in ("published", "tuned") and row.device.split()[0] != "cpu" for row in rows)
    return " for evaluation; models were merged on the CPU" if other else ""
