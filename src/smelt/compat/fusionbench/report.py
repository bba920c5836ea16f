"""Results in the shape of FusionBench's reports: accuracy and loss by task, their average, where they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from smelt.evaluation.row import Row, code_version

__all__ = ["Scored", "fusionbench_report"]


class Scored(Protocol):
    """A Row or a Result: a task with its accuracy and, where there is one, its loss."""

    @property
    def task(self) -> str: ...
    @property
    def accuracy(self) -> float: ...
    @property
    def loss(self) -> float | None: ...


def fusionbench_report(results: Iterable[Scored], provenance: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The report in FusionBench's shape: accuracy and loss by task, their average, and where the numbers come from.

    The provenance block holds what all rows share (model, hash, recipe, seed, code, ...), and what is given.
    """
    results = list(results)
    scores = {one.task: {"accuracy": one.accuracy, "loss": one.loss} for one in results}
    average = {name: _average([score[name] for score in scores.values()]) for name in ("accuracy", "loss")}
    shared = _shared([one.model_dump() for one in results if isinstance(one, Row)])
    return {**scores, "average": average, "provenance": {"code": code_version(), **shared, **(provenance or {})}}


def _average(values: list[float | None]) -> float | None:
    """The mean; None where a value is missing or there is none."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known and len(known) == len(values) else None


def _shared(rows: list[dict[str, Any]]) -> dict[str, Any]:
    words = "split corruption model model_hash recipe recipe_hash seed data_budget device dtype code command".split()
    same = {word: rows[0][word] for word in words if all(row[word] == rows[0][word] for row in rows)} if rows else {}
    if rows:
        same["tasks"] = {
            row["task"]: {"version": row["task_version"], "n": row["n"], "low": row["low"], "high": row["high"]}
            for row in rows
        }
    return same
