"""What models answered, read from the store: which answers are right, how uncertain each is, how two differ.

    difference of two models = mean over sets of the mean over questions of (right of one - right of the other)
All models answer the same questions, so that the interval is that of paired differences, 95 %, normal approximation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import SmeltError
from smelt.select.uncertainty import mean_of_sets, set_uncertainty, uncertainty

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.bench.selection.desk import Desk
    from smelt.evaluate.perturb.perturbation import Perturbation
    from smelt.select.asking import OptionSet
    from smelt.select.measured import Measure

__all__ = ["Answers", "paired"]

_Z95 = 1.959963984540054


class Answers:
    """Reads each file of the store once."""

    def __init__(self, desk: Desk):
        self._desk = desk
        self._known: dict[tuple[Any, ...], NDArray[np.float32]] = {}

    def has(self, identity: str, kinds: Sequence[str], perturbations: Sequence[str]) -> bool:
        """Whether all of a model's answers are there."""
        plain = [(self._desk.plain[kind], None) for kind in kinds]
        drawn = [(m, how) for name in perturbations for m, how in self._draws(self._desk.perturbed[name])]
        return all(
            self._read(measure, identity, one, how) is not None
            for measure, how in [*plain, *drawn]
            for one in measure.asking.sets
        )

    def right(self, identity: str, kinds: Sequence[str]) -> list[NDArray[np.float64]]:
        """1 or 0 for every question, set by set."""
        found = []
        for measure in (self._desk.plain[kind] for kind in kinds):
            for one in measure.asking.sets:
                logits = self._sure(measure, identity, one, None)
                found.append((logits[:, 0].argmax(axis=1) == one.labels).astype(np.float64))
        return found

    def uncertainty(self, identity: str, perturbation: str) -> dict[str, Any]:
        """The mean over the sets with its interval, and every set's."""
        measure = self._desk.perturbed[perturbation]
        sets = {}
        for one in measure.asking.sets:
            drawn = [uncertainty(self._sure(measure, identity, one, how)) for _, how in self._draws(measure)]
            sets[one.task.name] = set_uncertainty(drawn)
        mean, interval = mean_of_sets(list(sets.values()))
        low, high = interval or (mean, mean)
        about = {name: {"n": one.n, "mean": one.model, "interval": one.interval} for name, one in sets.items()}
        return {"mean": mean, "low": low, "high": high, "sets": about}

    @staticmethod
    def _draws(measure: Measure) -> list[tuple[Measure, Perturbation | None]]:
        how = measure.asking.perturbation
        assert how is not None
        return [(measure, how.repeated(repeat)) for repeat in range(measure.repeats)]

    def _sure(self, measure: Measure, identity: str, one: OptionSet, how: Perturbation | None) -> NDArray[np.float32]:
        found = self._read(measure, identity, one, how)
        if found is None:
            raise SmeltError(f"the answers of a model on {one.task.name} are gone from the store; run the suite again")
        return found

    def _read(
        self, measure: Measure, identity: str, one: OptionSet, how: Perturbation | None
    ) -> NDArray[np.float32] | None:
        key = (identity, one.task.name, measure.asking.split, how)
        if key not in self._known:
            found = self._desk.store.read(measure.words(identity, one, how))
            if found is None:
                return None
            self._known[key] = found
        return self._known[key]


def paired(ours: Sequence[Sequence[Any]], theirs: Sequence[Sequence[Any]]) -> Mapping[str, float]:
    """How far some models' mean accuracy is above that of others, question by question; {difference, error, low, high}.

    Each side is a list of models, and a model a list of sets with 1 or 0 for every question. `error` is the standard
    error over questions; that the models of a side are a sample too is not in it.
    """
    mean, variance, sets = 0.0, 0.0, len(ours[0])
    for number in range(sets):
        own, other = (np.mean([model[number] for model in side], axis=0) for side in (ours, theirs))
        apart = own - other
        mean += float(apart.mean()) / sets
        if len(apart) > 1:
            variance += float(apart.var(ddof=1)) / len(apart) / sets**2
    error = math.sqrt(variance)
    return {"difference": mean, "error": error, "low": mean - _Z95 * error, "high": mean + _Z95 * error}
