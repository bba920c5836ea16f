"""Fitting Portland on features: the only thing that learns is one linear layer.

    min  boosting(head(sum_i beta_i z_i)) + weight * alignment(beta)                 beta = Portland(z)

An epoch has as many rounds as the smallest data set has batches; a round takes one step of Adam on each data set, in
order. As the released code does, except that the best epoch is chosen on validation data, by the boosting loss alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypedDict

import torch
from torch import Tensor

from smelt.errors import NumericalError, RecipeError, unknown
from smelt.learning.neulig.collaborate import ensembled_logits
from smelt.learning.neulig.features import ExpertFeatures
from smelt.learning.neulig.objective import ALIGNMENTS, BOOSTING, AlignmentKind, Boosting, OffsetAlignment, boosting
from smelt.learning.neulig.portland import Portland
from smelt.optimise.batch_indices import batch_indices
from smelt.system.threads import torch_threads

__all__ = ["Epoch", "FitSettings", "FitWords", "Fitted", "fit"]

Classify: TypeAlias = Callable[[Tensor, Tensor], Tensor]


class FitWords(TypedDict, total=False):
    """The words of `smelt.neulig` that are fields of FitSettings, for editors and type checkers."""

    boosting: Boosting
    alignment: AlignmentKind
    alignment_weight: float
    rate: float
    epochs: int
    batch: int
    fraction: float
    seed: int


@dataclass(frozen=True)
class FitSettings:
    """How Portland is fitted."""

    boosting: Boosting = "supervised"
    alignment: AlignmentKind = "scalar"
    alignment_weight: float = 0.01
    rate: float = 1e-3
    epochs: int = 10
    batch: int = 128
    fraction: float = 1.0
    """Of each data set's training examples."""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.boosting not in BOOSTING:
            raise RecipeError(unknown("boosting", self.boosting, BOOSTING))
        if self.alignment not in ALIGNMENTS:
            raise RecipeError(unknown("alignment", self.alignment, ALIGNMENTS))
        if not (math.isfinite(self.rate) and self.rate > 0):
            raise RecipeError(f"rate: is above 0, got {self.rate}")
        if not (math.isfinite(self.alignment_weight) and self.alignment_weight >= 0):
            raise RecipeError(f"alignment_weight: is not negative, got {self.alignment_weight}")
        if self.epochs < 1 or self.batch < 1:
            raise RecipeError(f"epochs and batch are at least 1, got {self.epochs} and {self.batch}")
        if not 0 < self.fraction <= 1:
            raise RecipeError(f"fraction: is above 0 and at most 1, got {self.fraction}")


@dataclass(frozen=True, eq=False)
class Epoch:
    """Portland after so many epochs; number 0 is before the first."""

    number: int
    loss: float
    """Boosting and alignment on the training examples: the mean over data sets."""
    validation_loss: float | None
    """Boosting alone on the validation examples: the mean over data sets."""
    map: Tensor = field(repr=False)
    """The CoopVec Map [data sets, experts] of the training examples."""
    portland: Portland = field(repr=False)


@dataclass(frozen=True, eq=False)
class Fitted:
    """The chosen Portland, and how it came to be."""

    portland: Portland
    history: list[Epoch]
    chosen: int
    """The number of the epoch that `portland` is from."""


def fit(
    train: Mapping[str, ExpertFeatures],
    setting: FitSettings,
    *,
    alignment: OffsetAlignment,
    classify: Classify,
    validation: Mapping[str, ExpertFeatures] | None = None,
    start: Portland | None = None,
) -> Fitted:
    """Fit Portland on the features of several tasks, or go on from `start`.

    `classify` scores features by a head, as the network of the experts does. With validation data the epoch of the
    lowest boosting loss on it is chosen, the untrained one among them; without, the last. `semi` looks at no label,
    neither in fitting nor in choosing.
    """
    _check(train, validation, setting, alignment, start)
    with torch_threads(1):
        return _fit(train, setting, _Judge(setting, alignment, classify), validation, start)


def _fit(
    train: Mapping[str, ExpertFeatures],
    setting: FitSettings,
    judge: _Judge,
    validation: Mapping[str, ExpertFeatures] | None,
    start: Portland | None,
) -> Fitted:
    parts = {task: one.part(setting.fraction, setting.seed) for task, one in train.items()}
    one = next(iter(parts.values()))
    portland = start.copy() if start is not None else Portland(_names(one), one.z.shape[2], setting.seed)
    portland = portland.to(one.z.device)
    history = [judge.epoch(0, portland, parts, validation)]
    parameters = list(portland.parameters())
    adam = torch.optim.Adam(parameters, lr=setting.rate)
    rounds = min(math.ceil(len(part) / setting.batch) for part in parts.values())
    for number in range(1, setting.epochs + 1):
        orders = {
            task: batch_indices(setting.seed, task, number - 1, size=len(part), batch=len(part))
            for task, part in parts.items()
        }
        for turn in range(rounds):
            for task, part in parts.items():
                batch = part.at(orders[task][turn * setting.batch : (turn + 1) * setting.batch])
                total = judge.loss(portland, batch)
                if not bool(torch.isfinite(total)):
                    raise NumericalError(f"epoch {number}: the loss on {task} is {float(total)}; try a smaller rate")
                gradients = torch.autograd.grad(total, parameters)  # whatever else is in the graph gets none
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    parameter.grad = gradient
                adam.step()
        history.append(judge.epoch(number, portland, parts, validation))
    chosen = history[-1]
    if validation:
        judged = [(epoch.validation_loss, epoch.number) for epoch in history if epoch.validation_loss is not None]
        chosen = history[min(judged)[1]]
    return Fitted(chosen.portland, history, chosen.number)


class _Judge:
    """The losses of a setting."""

    def __init__(self, setting: FitSettings, alignment: OffsetAlignment, classify: Classify):
        self._setting, self._alignment, self._classify = setting, alignment, classify

    def loss(self, portland: Portland, features: ExpertFeatures) -> Tensor:
        """What is minimised."""
        return self._total(*self._boost(portland, features))

    def epoch(
        self,
        number: int,
        portland: Portland,
        train: Mapping[str, ExpertFeatures],
        validation: Mapping[str, ExpertFeatures] | None,
    ) -> Epoch:
        with torch.no_grad():
            rows, losses = [], []
            for part in train.values():
                boost, beta = self._boost(portland, part)
                losses.append(float(self._total(boost, beta)))
                rows.append(beta.double().mean(dim=0).cpu())
            held_out = [float(self._boost(portland, part)[0]) for part in (validation or {}).values()]
        mean = sum(held_out) / len(held_out) if held_out else None
        return Epoch(number, sum(losses) / len(losses), mean, torch.stack(rows), portland.copy())

    def _total(self, boost: Tensor, beta: Tensor) -> Tensor:
        return boost + self._setting.alignment_weight * self._alignment(beta)

    def _boost(self, portland: Portland, features: ExpertFeatures) -> tuple[Tensor, Tensor]:
        beta = portland.coopvec(features.z)
        logits = ensembled_logits(self._classify, beta, features.z, features.head)
        return boosting(self._setting.boosting, logits, features.labels), beta


def _names(features: ExpertFeatures) -> tuple[str, ...]:
    return features.experts or tuple(f"expert {number}" for number in range(features.z.shape[1]))


def _check(
    train: Mapping[str, ExpertFeatures],
    validation: Mapping[str, ExpertFeatures] | None,
    setting: FitSettings,
    alignment: OffsetAlignment,
    start: Portland | None,
) -> None:
    if not train:
        raise RecipeError("there is nothing to fit Portland on: no features were given")
    if alignment.kind != setting.alignment:
        raise RecipeError(f"the setting says alignment {setting.alignment!r}, but {alignment.kind!r} was given")
    sizes = [(task, one.z.shape[1:], _names(one)) for task, one in (*train.items(), *(validation or {}).items())]
    task, size, names = sizes[0]
    for other, more, own in sizes[1:]:
        if (more, own) != (size, names):
            raise RecipeError(
                f"the features of {task} are of {', '.join(names)} (width {size[1]}), "
                f"those of {other} of {', '.join(own)} (width {more[1]})"
            )
    if alignment.numbers is not None and len(alignment.numbers) != size[0]:
        raise RecipeError(f"the alignment is of {len(alignment.numbers)} experts, the features of {size[0]}")
    if start is not None and start.experts != names:
        raise RecipeError(
            f"the Portland to start from is for {', '.join(start.experts)}, the features are of {', '.join(names)}; "
            "for_experts, with_expert and permuted make one for others"
        )
