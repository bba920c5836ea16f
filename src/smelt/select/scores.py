"""Scoring: a model in, its uncertainty and accuracy on every set out; what was asked before is read from the store."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import NumericalError
from smelt.select.entropy import SetUncertainty, mean_of_sets, set_uncertainty, uncertainty
from smelt.tasks.intervals import wilson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.select.logit_store import LogitStore
    from smelt.select.option_sets import OptionSet, OptionSets
    from smelt.tasks.perturbations.perturbation import Perturbation

__all__ = ["ModelScores", "Scorer"]

_ASKING = 1
"""Raised when models are asked or perturbed in another way, so that answers of the old way are not taken for new."""


@dataclass(frozen=True)
class ModelScores:
    """One model on all sets."""

    sets: Mapping[str, SetUncertainty]
    correct: Mapping[str, int] | None
    """How many answers of each set are right, unperturbed; none where a set has no labels."""
    perturbed: bool = True
    """Whether there were perturbed passes, without which there is no uncertainty."""

    @property
    def uncertainty(self) -> float:
        """The mean over sets."""
        return mean_of_sets(list(self.sets.values()))[0]

    @property
    def accuracy(self) -> float | None:
        """The mean over sets."""
        if self.correct is None:
            return None
        return sum(right / self.sets[name].n for name, right in self.correct.items()) / len(self.correct)

    def to_json(self) -> dict[str, Any]:
        """Plain data, for the trace."""
        mean, interval = mean_of_sets(list(self.sets.values()))
        return {
            **({"uncertainty": mean, "interval": interval} if self.perturbed else {}),
            "accuracy": self.accuracy,
            "sets": {name: self._set(name, one) for name, one in self.sets.items()},
        }

    def _set(self, name: str, one: SetUncertainty) -> dict[str, Any]:
        found: dict[str, Any] = {"n": one.n}
        if self.perturbed:
            found |= {"uncertainty": one.model, "interval": one.interval, "total": one.total, "data": one.data}
        if self.correct is not None:
            right = self.correct[name]
            found |= {"accuracy": right / one.n, "accuracy_interval": wilson(right, one.n)}
        return found


class Scorer:
    """Asks models what has not been asked before."""

    def __init__(self, option_sets: OptionSets, store: LogitStore, *, repeats: int = 1):
        self.option_sets, self.store, self.repeats = option_sets, store, repeats
        self._prints = {one.task.name: one.fingerprint for one in option_sets.sets}
        self._text = option_sets.text_fingerprint
        self.asked = 0
        """Passes over a set that were made here, and not found in the store."""

    def of(self, identity: str, model: Callable[[], Any]) -> ModelScores:
        """A model by a hash of what it follows from; it is made and loaded if something is not in the store."""
        load = functools.cache(lambda: self.option_sets.load(model()))
        sets = {one.task.name: self._uncertainty(identity, one, load) for one in self.option_sets.sets}
        return ModelScores(sets, self._correct(identity, load), self.option_sets.perturbation is not None)

    def _uncertainty(self, identity: str, one: OptionSet, load: Callable[[], Any]) -> SetUncertainty:
        how = self.option_sets.perturbation
        draws = [how.repeated(repeat) for repeat in range(self.repeats)] if how else [None]
        found = [self.logits(identity, one, draw, load) for draw in draws]
        return set_uncertainty([uncertainty(logits) for logits in found])

    def _correct(self, identity: str, load: Callable[[], Any]) -> dict[str, int] | None:
        if not self.option_sets.labelled:
            return None
        return {
            one.task.name: int((self.logits(identity, one, None, load)[:, 0].argmax(axis=1) == one.labels).sum())
            for one in self.option_sets.sets
        }

    def words(self, identity: str, one: OptionSet, how: Perturbation | None) -> dict[str, Any]:
        """What the store knows the answers of a model to a set by."""
        return {
            "asking": _ASKING,
            "model": identity,
            "set": one.task.name,
            "instruction": getattr(one.task, "instruction", None),
            "extra": list(getattr(one.task, "extra", ())),
            "version": self._prints[one.task.name],
            "split": self.option_sets.split,
            "limit": self.option_sets.limit,
            "perturbation": how.words() if how else None,
            "device": self.option_sets.loading["device"].split(":")[0],
            "dtype": self.option_sets.loading["dtype"],
            "text_from": self._text,
        }

    def logits(
        self, identity: str, one: OptionSet, how: Perturbation | None, load: Callable[[], Any]
    ) -> NDArray[np.float32]:
        """[n, passes, options]; the plain pass is one."""
        words = self.words(identity, one, how)
        known = self.store.read(words)
        if known is not None:
            return known
        model = load()
        logits = np.stack([one.logits(model, how, number) for number in range(how.passes if how else 1)], axis=1)
        if np.isnan(logits).any():
            raise NumericalError(f"{model.label} gives NaN scores on {one.task.name}; its weights are not sound")
        self.store.write(words, logits)
        self.asked += logits.shape[1]
        return logits
