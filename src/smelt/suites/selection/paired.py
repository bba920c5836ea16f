"""Paired differences: how far some models are above others on the very same questions, with a 95 % interval.

    difference = mean over sets of the mean over questions of (value of one - value of the other)
    error² = sum over pictures of (sum over the picture's questions, of all sets, of (d - mean of d) / n / sets)²
The value of a question is right (1) or wrong (0), or an uncertainty. A picture may be asked about more than once,
within a set and in several sets: its questions count as one draw (errors clustered by picture). Where every picture is
asked about once, that is the usual error of a mean of paired differences. Normal approximation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.tasks.intervals import Z95

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.tasks.questions.lettered import LetteredTask

__all__ = ["paired", "picture_names"]


def paired(
    ours: Sequence[Sequence[Any]], theirs: Sequence[Sequence[Any]], pictures: Sequence[Sequence[str]] | None = None
) -> dict[str, float]:
    """How far the mean of some models is above that of others; {difference, error, low, high}.

    Each side is a list of models, and a model a list of sets with a value for every question. `pictures` names those of
    the questions, set by set; without it every question has its own. `error` is the standard error over pictures; that
    the models of a side are a sample too is not in it. A set about one picture adds nothing to it.
    """
    mean, sets = 0.0, len(ours[0])
    names: list[Any] = []
    parts: list[NDArray[np.float64]] = []
    for number in range(sets):
        own, other = (np.mean([model[number] for model in side], axis=0) for side in (ours, theirs))
        apart = own - other
        mean += float(apart.mean()) / sets
        here = list(pictures[number]) if pictures else [(number, place) for place in range(len(apart))]
        drawn = len(set(here))
        names += here
        parts.append((apart - apart.mean()) / len(apart) / sets * np.sqrt(drawn / max(drawn - 1, 1)))
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    sums = np.bincount([places[name] for name in names], weights=np.concatenate(parts))
    error = float(np.sqrt(np.square(sums).sum()))
    return {"difference": mean, "error": error, "low": mean - Z95 * error, "high": mean + Z95 * error}


def picture_names(task: LetteredTask, split: str, limit: int | None) -> list[str]:
    """What tells the pictures of a set's questions apart, in their order, the same in every set."""
    from smelt.tasks.questions.option_scores import question_subset

    return [task.picture_name(question) for question in question_subset(task, split, limit).questions]
