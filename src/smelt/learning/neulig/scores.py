"""Mer., Ens. and Gap of a collaboration: every task at both levels, and their averages.

Gap = |Mer. - Ens.|            of the averages: |mean Mer. - mean Ens.|, which is not the mean of the gaps
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from smelt.display.blocks import Table
from smelt.display.shown import Shown

if TYPE_CHECKING:
    from smelt.learning.neulig.classifier import Collaboration
    from smelt.tasks.pictures.task import PictureTask

__all__ = ["LevelScore", "LevelScores", "level_scores"]


@dataclass(frozen=True)
class LevelScore:
    """One task, or the average: shares of right answers."""

    merged: float
    ensembled: float

    @property
    def gap(self) -> float:
        return abs(self.merged - self.ensembled)

    def as_dict(self) -> dict[str, float]:
        return {"merged": self.merged, "ensembled": self.ensembled, "gap": self.gap}


@dataclass(frozen=True)
class LevelScores(Shown):
    """Every task by name, with the number of pictures that each was asked about."""

    split: str
    tasks: dict[str, LevelScore]
    pictures: dict[str, int]

    @property
    def average(self) -> LevelScore:
        every = list(self.tasks.values())
        return LevelScore(
            sum(one.merged for one in every) / len(every), sum(one.ensembled for one in every) / len(every)
        )

    def as_dict(self) -> dict[str, Any]:
        tasks = {name: {**one.as_dict(), "n": self.pictures[name]} for name, one in self.tasks.items()}
        return {"split": self.split, "tasks": tasks, "average": self.average.as_dict()}

    def shown(self) -> list[Table]:
        rows = [[name, f"{self.pictures[name]:,}", *_percent(one)] for name, one in self.tasks.items()]
        rows.append(["average", "", *_percent(self.average)])
        title = f"merged and ensembled with the same coefficients, {self.split} split, in %"
        return [Table(["task", "pictures", "Mer.", "Ens.", "Gap"], rows, title, rules=(len(rows) - 1,))]


def _percent(one: LevelScore) -> list[str]:
    return [f"{100 * value:.2f}" for value in (one.merged, one.ensembled, one.gap)]


def level_scores(
    collaboration: Collaboration,
    tasks: Sequence[PictureTask],
    *,
    split: str = "test",
    limit: int | None = None,
    threads: int | None = None,
    quiet: bool = True,
) -> LevelScores:
    """Ask a collaboration at both levels; every picture by its own merged model."""
    from smelt.evaluation.evaluate import evaluate_model

    once = list({task.name: task for task in tasks}.values())
    found = evaluate_model(collaboration, once, split=split, limit=limit, level="both", threads=threads, quiet=quiet)
    by_level = {(row.task, row.level): row for row in found.rows}
    scores = {
        task.name: LevelScore(*(by_level[task.name, level].accuracy for level in ("merged", "ensembled")))
        for task in once
    }
    return LevelScores(split, scores, {task.name: by_level[task.name, "merged"].n for task in once})
