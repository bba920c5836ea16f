"""One number of a table with its interval, and the means of several.

The mean of T tasks is their plain mean. Its interval combines the tasks' own (they are independent samples):
    low = mean - sqrt(sum_t (acc_t - low_t)^2) / T        and so upwards      (Zou & Donner 2008)
Of two averages the higher one is surely so where their difference exceeds its own interval, combined in the same way
(models see the same examples, so that this errs on the side of caution).
Numbers on the same examples rise and fall together: their lower ends are averaged, and their upper ends, which is never
too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from smelt.evaluation.row import Row

__all__ = ["Cell", "cell_alone", "cell_of", "mean_cell", "mean_on_same_examples", "printed_cell", "surely_above"]


@dataclass(frozen=True)
class Cell:
    """One number with its interval. `rank` is 1 for the best merge of the column, 2 for the second."""

    accuracy: float
    low: float
    high: float
    n: int
    correct: int | None = None
    loss: float | None = None
    rank: int = 0
    whole: bool = True
    """False for a mean over fewer numbers than other lines have: it is shown and takes no place."""


def cell_of(row: Row) -> Cell:
    """The number of one row."""
    return Cell(row.accuracy, row.low, row.high, row.n, row.correct, row.loss)


def mean_cell(cells: Sequence[Cell | None]) -> Cell | None:
    """The average of a line, None where a task is missing."""
    known = [cell for cell in cells if cell is not None]
    if not known or len(known) < len(cells):
        return None
    mean = sum(cell.accuracy for cell in known) / len(known)
    below = math.sqrt(sum((cell.accuracy - cell.low) ** 2 for cell in known)) / len(known)
    above = math.sqrt(sum((cell.high - cell.accuracy) ** 2 for cell in known)) / len(known)
    whole = all(cell.whole for cell in known)
    return Cell(mean, mean - below, mean + above, sum(cell.n for cell in known), whole=whole)


def cell_alone(value: float) -> Cell:
    """A number that has no interval and no count."""
    return Cell(value, value, value, 0)


def printed_cell(percent: float | None) -> Cell | None:
    """A number as a paper printed it, in percent; None where it has none."""
    return None if percent is None else cell_alone(round(percent / 100, 6))


def mean_on_same_examples(cells: Sequence[Cell], *, whole: bool = True) -> Cell | None:
    """The mean of several numbers on the same examples."""
    if not cells:
        return None

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    return Cell(
        mean([cell.accuracy for cell in cells]),
        mean([cell.low for cell in cells]),
        mean([cell.high for cell in cells]),
        max(cell.n for cell in cells),
        whole=whole and all(cell.whole for cell in cells),
    )


def surely_above(one: Cell, other: Cell) -> bool:
    """Whether one average is above another by more than the 95 % interval of their difference."""
    return one.accuracy - other.accuracy > math.hypot(one.accuracy - one.low, other.high - other.accuracy)
