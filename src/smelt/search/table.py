"""The trials of a study as a table for people and spreadsheets."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from smelt.search.study import Trial

__all__ = ["write_trials"]


def write_trials(path: Path, trials: Sequence[Trial], tasks: Sequence[str]) -> None:
    """Every trial on a line: its values, its scores, its costs."""
    words = list(dict.fromkeys(word for trial in trials for word in trial.values))
    costs = ["merge_seconds", "evaluate_seconds"]
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(["trial", "phase", "state", "accuracy", *words, *tasks, *costs, "recipe_hash", "error"])
    for trial in trials:
        values = [trial.values.get(word, "") for word in words]
        scores = [trial.scores.get(task, "") for task in tasks]
        spent = [f"{trial.merge_seconds:.3f}", f"{trial.evaluate_seconds:.3f}"]
        first = [trial.number, trial.phase, trial.state, "" if trial.accuracy is None else trial.accuracy]
        table.writerow([*first, *values, *scores, *spent, trial.recipe_hash, trial.error])
    path.write_text(text.getvalue(), encoding="utf-8")
