"""Uncertainty: what several perturbed passes disagree about, in nats.

    p_j = softmax over the options of pass j
    total = H(mean_j p_j)      data = mean_j H(p_j)      model uncertainty = total - data, from 0 to ln min(J, options)
UQ-Merge: the difference is the mutual information of the answer and the perturbation. All in float64, with a shift by
the largest logit, so that logits of any size are sound; a logit of -inf is an option that the sample does not have.
A set's value is the mean over its samples, and that of several sets the mean of theirs, however large they are. The
95 % intervals are the normal approximation over samples: mean ± 1.96 SD / √n. They take every sample as drawn by
itself: where samples share a picture, within a set or between sets, they may be too narrow. Two models that were asked
the same are better compared by the differences of their samples.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt.errors import NumericalError, RecipeError
from smelt.tasks.intervals import Z95

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SetUncertainty", "Uncertainty", "mean_of_sets", "set_uncertainty", "uncertainty"]


@dataclass(frozen=True)
class Uncertainty:
    """Of every sample [n], in nats."""

    total: NDArray[np.float64]
    """The entropy of the mean answer."""
    data: NDArray[np.float64]
    """The mean entropy of the answers."""

    @property
    def model(self) -> NDArray[np.float64]:
        """What is left: how far the answers disagree."""
        return self.total - self.data


@dataclass(frozen=True)
class SetUncertainty:
    """Of one set: means over its samples, and the interval of the model uncertainty."""

    n: int
    total: float
    data: float
    model: float
    standard_error: float | None
    """SD / √n of the samples' model uncertainties; none for one sample."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 %, never below 0."""
        return _interval(self.model, self.standard_error)


def uncertainty(logits: Any) -> Uncertainty:
    """The uncertainties of samples from the `logits` of options [n, J, options], an array or a tensor."""
    values = np.asarray(logits.numpy(force=True) if hasattr(logits, "numpy") else logits, dtype=np.float64)
    if values.ndim != 3 or 0 in values.shape[1:]:
        raise RecipeError(f"option logits are [samples, passes, options]; got {list(values.shape)}")
    largest = values.max(axis=2, keepdims=True)
    if not np.isfinite(largest).all():  # NaN, +inf, or no option at all
        sample, number = (int(place) for place in np.argwhere(~np.isfinite(largest[..., 0]))[0])
        raise NumericalError(f"the option logits of sample {sample} in pass {number} are NaN, infinite or all absent")
    parts = np.exp(values - largest)
    chances = parts / parts.sum(axis=2, keepdims=True)
    return Uncertainty(_entropy(chances.mean(axis=1)), _entropy(chances).mean(axis=1))


def set_uncertainty(repeats: Sequence[Uncertainty]) -> SetUncertainty:
    """One set, asked once or several times with other draws: every sample counts with its mean over the repeats."""
    if not repeats or not len(repeats[0].total):
        raise RecipeError("no samples, no uncertainty")
    total, data = (np.mean([getattr(one, name) for one in repeats], axis=0) for name in ("total", "data"))
    own, n = total - data, len(total)
    error = float(own.std(ddof=1)) / math.sqrt(n) if n > 1 else None
    return SetUncertainty(n, float(total.mean()), float(data.mean()), max(0.0, float(own.mean())), error)


def mean_of_sets(sets: Sequence[SetUncertainty]) -> tuple[float, tuple[float, float] | None]:
    """The mean of the sets' uncertainties and its interval, which takes the sets' samples as independent."""
    mean = sum(one.model for one in sets) / len(sets)
    errors = [one.standard_error for one in sets if one.standard_error is not None]
    error = math.sqrt(sum(error**2 for error in errors)) / len(sets) if len(errors) == len(sets) else None
    return mean, _interval(mean, error)


def _interval(mean: float, error: float | None) -> tuple[float, float] | None:
    return None if error is None else (max(0.0, mean - Z95 * error), mean + Z95 * error)


def _entropy(chances: NDArray[np.float64]) -> NDArray[np.float64]:
    """-sum p ln p over the last axis; a chance of 0 adds nothing."""
    logs = np.log(chances, where=chances > 0, out=np.zeros_like(chances))
    found: NDArray[np.float64] = -(chances * logs).sum(axis=-1)
    return found
