"""Predictors made of several models' scores: their mean, or the largest of them.

mean on logits          Σ_i w_i z_i / Σ_i w_i                        (FusionBench's ensembles)
mean on probabilities   log Σ_i w_i softmax(z_i) / Σ_i w_i
max                     max_i z_i, element by element                (FusionBench's max-model predictor)
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from smelt.ensembles.members import Members
from smelt.errors import RecipeError, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.models.families.family import Classifier

__all__ = ["Ensemble", "MaxModel"]


class Ensemble(Members):
    """The weighted mean of all members' answers. `weights` are one for each member, in order or by name."""

    kind = "mean"

    def __init__(
        self,
        members: Mapping[str, Classifier] | Sequence[Classifier],
        weights: Mapping[str, float] | Sequence[float] | None = None,
        on: Literal["logits", "probabilities"] = "logits",
    ):
        super().__init__(members)
        if on not in ("logits", "probabilities"):
            raise RecipeError(f"on: the mean is taken of logits or of probabilities, got {on!r}")
        self.on, self.weights = on, _shares(list(self.members), weights)

    @property
    def _words(self) -> Any:
        return [self.on, list(self.weights.values())]

    def logits(self, pictures: NDArray[np.uint8], head: Any) -> Tensor:
        """Scores [n, classes] in fp32; logarithms of probabilities where those are averaged."""
        import torch

        total: Tensor | None = None
        for weight, scores in zip(self.weights.values(), self.scores(pictures, head), strict=True):
            with torch.inference_mode():
                if self.on == "probabilities":  # sums of logarithms, so that small probabilities stay apart
                    part = scores.log_softmax(dim=1) + (math.log(weight) if weight else -math.inf)
                    total = part if total is None else torch.logaddexp(total, part)
                else:
                    total = weight * scores if total is None else total + weight * scores
        assert total is not None
        return total


class MaxModel(Members):
    """For every class the largest score that any member gives it."""

    kind = "max"

    def logits(self, pictures: NDArray[np.uint8], head: Any) -> Tensor:
        """Scores [n, classes] in fp32."""
        import torch

        largest: Tensor | None = None
        for scores in self.scores(pictures, head):
            with torch.inference_mode():
                largest = scores if largest is None else torch.maximum(largest, scores)
        assert largest is not None
        return largest


def _shares(names: list[str], weights: Mapping[str, float] | Sequence[float] | None) -> dict[str, float]:
    """The weights by member, divided by their sum."""
    if weights is None:
        return dict.fromkeys(names, 1 / len(names))
    if isinstance(weights, Mapping):
        strange = [name for name in weights if name not in names]
        if strange:
            raise RecipeError(f"weights: {unknown('model', str(strange[0]), names)}")
        missing = [name for name in names if name not in weights]
        if missing:
            raise RecipeError(f"weights: no value for {', '.join(map(repr, missing))}; name every model")
        given = [weights[name] for name in names]
    else:
        given = list(weights)
        if len(given) != len(names):
            raise RecipeError(f"weights: one for each of the {len(names)} models is needed, got {len(given)}")
    if not all(math.isfinite(one) and one >= 0 for one in given) or sum(given) <= 0:
        raise RecipeError(f"weights: numbers from 0 on that are not all 0 are needed, got {given}")
    return {name: one / sum(given) for name, one in zip(names, given, strict=True)}
