"""The mean score of a method, and what it might have been: redrawn over the noise of its test examples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from smelt.evaluation.row import Row
from smelt.reporting.tables.cells import Cell, cell_of, mean_on_same_examples
from smelt.tasks.intervals import Z95

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Measured", "MethodScore", "redrawn_means"]

_DRAWS = 2_000


@dataclass(frozen=True)
class Measured:
    """A model's number on one task. `key` is the same for measurements of one model on the same examples."""

    cell: Cell
    share: bool
    """Whether it is the share of right answers among `cell.n`."""
    weight: float
    """What it counts in the method's mean."""
    key: tuple[object, ...]


@dataclass(frozen=True)
class MethodScore:
    """A method with its printed number."""

    label: str
    printed: float
    measured: tuple[Measured, ...]

    @classmethod
    def of(cls, label: str, printed: float, cells: Sequence[tuple[Sequence[Row], float]]) -> MethodScore:
        """From the rows of every task with its weight. Several rows of a task (severities) are of the same examples."""
        return cls(label, printed, tuple(_measured(rows, weight) for rows, weight in cells))

    @property
    def mean(self) -> Cell:
        """With its interval: the tasks' own, combined as those of independent samples (tables/cells.py)."""
        mean = sum(one.weight * one.cell.accuracy for one in self.measured)
        below = math.hypot(*(one.weight * (one.cell.accuracy - one.cell.low) for one in self.measured))
        above = math.hypot(*(one.weight * (one.cell.high - one.cell.accuracy) for one in self.measured))
        return Cell(mean, mean - below, mean + above, sum(one.cell.n for one in self.measured))


def redrawn_means(scores: Sequence[MethodScore]) -> NDArray[np.float64]:
    """(draws, methods): the means as they might have come out; the same every time."""
    import numpy as np

    drawn: dict[tuple[object, ...], NDArray[np.float64]] = {}
    generator, means = np.random.default_rng(0), np.zeros((_DRAWS, len(scores)))
    for number, score in enumerate(scores):
        for one in score.measured:
            if one.key not in drawn:
                drawn[one.key] = _redrawn(one, generator)
            means[:, number] += one.weight * drawn[one.key]
    return means


def _redrawn(one: Measured, generator: np.random.Generator) -> NDArray[np.float64]:
    """(draws,)"""
    if one.share:
        return generator.binomial(one.cell.n, min(max(one.cell.accuracy, 0.0), 1.0), _DRAWS) / one.cell.n
    error = max(one.cell.high - one.cell.low, 0.0) / (2 * Z95)
    return generator.normal(one.cell.accuracy, error, _DRAWS)


def _measured(rows: Sequence[Row], weight: float) -> Measured:
    cell = mean_on_same_examples([cell_of(row) for row in rows])
    assert cell is not None
    key = tuple((row.model_hash, row.task, row.corruption, row.level, row.n, row.accuracy) for row in rows)
    return Measured(cell, all(row.correct is not None for row in rows), weight, key)
