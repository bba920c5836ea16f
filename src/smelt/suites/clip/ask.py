"""What a model is asked: which tasks, on which pictures, computed how. Plain data, so that it can travel."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from smelt.evaluation.evaluate import evaluate_model
from smelt.evaluation.row import Row
from smelt.files.schema import Strict
from smelt.models.families.load import load
from smelt.suites.units import shared_data

__all__ = ["Ask"]


class Ask(Strict):
    """Questions for one model."""

    cells: list[tuple[str, str | None]]
    """Tasks by name, each with the corruption of its pictures or nothing."""
    places: dict[str, str] = {}
    """Where tasks are found that are not known by their names."""
    seen: list[str] | None = None
    """The tasks whose experts are among the models, where a suite leaves some out."""
    split: str = "test"
    limit: int | None = None
    device: str = "cpu"
    dtype: str = "float32"
    threads: int | None = None
    allow_pickle: bool = False

    @property
    def tasks(self) -> list[str]:
        """Every task once, in order, as it is found."""
        return list(dict.fromkeys(self.places.get(task, task) for task, _ in self.cells))

    def put_to(self, model: Any, text_from: str | None = None, **about: Any) -> tuple[list[Row], float]:
        """Ask a model: its rows, and the seconds that it took. It is loaded once whatever the number of questions.

        `text_from` has what the model lacks, where it is a picture tower alone.
        """
        began = time.perf_counter()
        where: dict[str, Any] = {"device": self.device, "dtype": self.dtype, "allow_pickle": self.allow_pickle}
        loaded = load(model, "classifier", text_from=text_from, **where)
        rows: list[Row] = []
        for corruption in dict.fromkeys(corruption for _, corruption in self.cells):
            tasks = [self.places.get(task, task) for task, damage in self.cells if damage == corruption]
            rows += self._rows(loaded, tasks, corruption, about)
        if self.seen is not None:
            rows = [row.model_copy(update={"seen": row.task in self.seen}) for row in rows]
        return rows, time.perf_counter() - began

    @staticmethod
    def _again(command: str, corruption: str | None) -> str:
        """The command that gives the number again."""
        return command if corruption is None or not command else f"{command} --corruption {corruption}"

    def _rows(self, loaded: Any, tasks: Sequence[str], corruption: str | None, about: dict[str, Any]) -> list[Row]:
        return evaluate_model(
            loaded,
            list(tasks),
            split=self.split,
            limit=self.limit,
            threads=self.threads,
            data=shared_data(),
            corruption=corruption,
            **{**about, "command": self._again(str(about.get("command", "")), corruption)},
        ).rows
