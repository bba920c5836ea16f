"""What models answered, read from the store: which answers are right, and how uncertain each is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from smelt.errors import SmeltError
from smelt.select.entropy import mean_of_sets, uncertainty

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.select.option_sets import OptionSet
    from smelt.select.scores import ModelScores, Scorer
    from smelt.suites.selection.judged_sets import JudgedSet
    from smelt.suites.selection.process_cache import Session
    from smelt.tasks.perturbations.perturbation import Perturbation

__all__ = ["StoredAnswers"]


class StoredAnswers:
    """Reads each file of the store once."""

    def __init__(self, session: Session):
        self._session = session
        self._known: dict[tuple[Any, ...], NDArray[np.float32]] = {}
        self._measured: dict[tuple[str, str], ModelScores] = {}
        self._scores: dict[tuple[str, str, str], NDArray[np.float64]] = {}

    def sets(self, kind: str) -> Sequence[JudgedSet]:
        """The sets of a kind, with their questions."""
        return self._session.judged[kind]

    def has(self, identity: str, kinds: Sequence[str], perturbations: Sequence[str]) -> bool:
        """Whether all of a model's answers are there."""
        drawn = [(m, how) for name in perturbations for m, how in self._draws(self._session.perturbed[name])]
        return all(self._scored(identity, kind, one) is not None for kind in kinds for one in self.sets(kind)) and all(
            self._read(measure, identity, one, how) is not None
            for measure, how in drawn
            for one in measure.option_sets.sets
        )

    def right(self, identity: str, kinds: Sequence[str]) -> list[NDArray[np.float64]]:
        """The score of every question, 1 or 0 where it is right or wrong, set by set."""
        found = []
        for kind in kinds:
            for one in self.sets(kind):
                scores = self._scored(identity, kind, one)
                found.append(_gone() if scores is None else scores)
        return found

    def accuracy(self, identity: str, kinds: Sequence[str]) -> float:
        """The mean over the sets of some kinds."""
        right = self.right(identity, kinds)
        return float(sum(one.mean() for one in right) / len(right))

    def uncertainty(self, identity: str, perturbation: str) -> dict[str, Any]:
        """The mean over the sets with its interval, and every set's."""
        key = (identity, perturbation)
        if key not in self._measured:
            self._measured[key] = self._session.perturbed[perturbation].of(identity, _gone)
        sets = self._measured[key].sets
        mean, interval = mean_of_sets(list(sets.values()))
        low, high = interval or (mean, mean)
        about = {name: {"n": one.n, "mean": one.model, "interval": one.interval} for name, one in sets.items()}
        return {"mean": mean, "low": low, "high": high, "sets": about, "repeats": self._repeats(identity, perturbation)}

    def _repeats(self, identity: str, perturbation: str) -> list[dict[str, float]]:
        """Every set's mean in each of the repeats."""
        measure, sets = self._session.perturbed[perturbation], {}
        for one in measure.option_sets.sets:
            drawn = [self._sure(measure, identity, one, how) for _, how in self._draws(measure)]
            sets[one.task.name] = [max(0.0, float(uncertainty(logits).model.mean())) for logits in drawn]
        return [{name: values[number] for name, values in sets.items()} for number in range(measure.repeats)]

    def uncertain(self, identity: str, perturbation: str) -> list[NDArray[np.float64]]:
        """The model uncertainty of every question, set by set: its mean over the repeats."""
        measure, found = self._session.perturbed[perturbation], []
        for one in measure.option_sets.sets:
            drawn = [uncertainty(self._sure(measure, identity, one, how)).model for _, how in self._draws(measure)]
            found.append(np.mean(drawn, axis=0))
        return found

    def pictures(self, kinds: Sequence[str]) -> list[list[str]]:
        """What names the picture of every question, set by set; sets may share some."""
        return [one.pictures for kind in kinds for one in self.sets(kind)]

    def _scored(self, identity: str, kind: str, one: JudgedSet) -> NDArray[np.float64] | None:
        key = (identity, kind, one.task.name)
        if key not in self._scores:
            found = one.known(identity)
            if found is None:
                return None
            self._scores[key] = found
        return self._scores[key]

    @staticmethod
    def _draws(measure: Scorer) -> list[tuple[Scorer, Perturbation | None]]:
        how = measure.option_sets.perturbation
        assert how is not None
        return [(measure, how.repeated(repeat)) for repeat in range(measure.repeats)]

    def _sure(self, measure: Scorer, identity: str, one: OptionSet, how: Perturbation | None) -> NDArray[np.float32]:
        found = self._read(measure, identity, one, how)
        if found is None:
            _gone()
        return found

    def _read(
        self, measure: Scorer, identity: str, one: OptionSet, how: Perturbation | None
    ) -> NDArray[np.float32] | None:
        key = (identity, one.task.name, measure.option_sets.split, how)
        if key not in self._known:
            found = self._session.store.read(measure.words(identity, one, how))
            if found is None:
                return None
            self._known[key] = found
        return self._known[key]


def _gone() -> NoReturn:
    raise SmeltError("the answers of a model are gone from the store; run the suite again")
