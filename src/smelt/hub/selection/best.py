"""The best of many models, class by class, while their numbers come in block by block, from several threads.

In hubs of up to a thousand models all rows are kept. In larger ones those of the models that are chosen for some class,
of the next best of every class, and of the hundred that are best on the whole task: the same models in the same order,
with the same numbers, as if all had been kept. Equal numbers go to the model that stands first in the hub.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KEPT", "BestModels", "Rows"]

KEPT = 1000
"""Models up to which all rows are kept."""
_RANKED = 100
"""Models that are kept because they are best on the whole task."""
_NEXT = 1
"""Models of every class that are kept beside the chosen ones: an explanation shows who came next."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Some models by their numbers in the hub, ascending, a row for each."""

    numbers: NDArray[np.int64]
    recall: NDArray[np.float64]
    precision: NDArray[np.float64]
    reuse: NDArray[np.float64]

    def of(self, kept: NDArray[np.int64]) -> Rows:
        return Rows(self.numbers[kept], self.recall[kept], self.precision[kept], self.reuse[kept])

    def beside(self, other: Rows) -> Rows:
        """Both together, in the hub's order."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        found = Rows(*(np.concatenate(pair) for pair in pairs))
        return found.of(np.argsort(found.numbers))


class BestModels:
    """Collects rows; `k` models of each class are to be found among `count` models."""

    def __init__(self, k: int, count: int):
        self._k, self._all = k, count <= KEPT
        self._rows: list[Rows] = []
        self._floors: tuple[NDArray[np.float64], float] | None = None
        self._lock = threading.Lock()

    def add(self, rows: Rows) -> None:
        """Some more models, in the hub's order."""
        if not self._all:
            rows = self._promising(rows)
        with self._lock:
            if self._all or not self._rows:
                self._rows.append(rows)
            elif len(rows.numbers):
                self._rows = [self._best(self._rows[0].beside(rows))]

    def _promising(self, rows: Rows) -> Rows:
        """Without those that are below what is kept already, in every class and on the whole task."""
        floors = self._floors
        overall = rows.precision.mean(axis=1)
        if floors is None:
            return self._best(rows)
        return rows.of(np.flatnonzero((rows.reuse >= floors[0]).any(axis=1) | (overall >= floors[1])))

    def rows(self) -> Rows:
        """What was kept."""
        first, *more = sorted(self._rows, key=lambda rows: int(rows.numbers[0]))
        pairs = zip(*(vars(rows).values() for rows in (first, *more)), strict=True)
        found = Rows(*(np.concatenate(pair) for pair in pairs))
        return found.of(np.argsort(found.numbers))

    def _best(self, rows: Rows) -> Rows:
        kept = np.zeros(len(rows.numbers), dtype=bool)
        floors = np.full(rows.reuse.shape[1], -np.inf)
        for number, values in enumerate(np.ascontiguousarray(rows.reuse.T)):
            best = _first(values, self._k + _NEXT)
            kept[best] = True
            if len(best) == self._k + _NEXT:
                floors[number] = values[best].min()
        overall = rows.precision.mean(axis=1)
        best = _first(overall, _RANKED)
        kept[best] = True
        self._floors = floors, float(overall[best].min()) if len(best) == _RANKED else -np.inf
        return rows.of(np.flatnonzero(kept))


def _first(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Where the largest values are, in order; among equal ones the first."""
    if count >= len(values):
        return np.arange(len(values))
    least = np.partition(values, len(values) - count)[len(values) - count]
    places = np.flatnonzero(values >= least)
    return places[np.argsort(-values[places], kind="stable")[:count]]
