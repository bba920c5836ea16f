"""Per-class reuse: every class is scored by the models that were chosen for it.

    q_m(y | x)  = softmax over the classes of scale x cos(picture, class)
    w[m, y](x)  = H(q_m) / sum of H(q_m') over the models m' of y            (9)
    score_y(x)  = sum over the models m of y of w[m, y] q_m(y | x)           (8)
    answer      = the class with the largest score                           (10)

Tan et al. 2025 (Model Label Learning), section 4.3. Same as the paper: the more uncertain model weighs more
(`entropy`). The released code's idea, confident models first, is `inverse_entropy` (here it is normalised). Differs
from the paper: the scale is 100 (as the released code has it), since with 1 every softmax is nearly flat; models that
are all certain weigh alike. The scores of a picture do not sum to one: every class has an ensemble of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from smelt.ensembles.members import Members
from smelt.errors import IncompatibleModels, RecipeError, unknown

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from smelt.models.families.family import Classifier
    from smelt.models.families.preprocess import Preprocess

__all__ = ["PerClass", "Scale", "Weights", "entropies", "member_probabilities", "per_class_scores"]

Weights: TypeAlias = Literal["entropy", "inverse_entropy", "uniform"]
Scale: TypeAlias = float | Literal["own"]
_WEIGHTS = ("entropy", "inverse_entropy", "uniform")
_LEAST = 1e-12
"""Under a logarithm and under a fraction."""
_FLOOR = 1e-300
"""Of a score, under its logarithm: no score is that small by itself, and close ones stay apart."""


def entropies(probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """H in nats over the last axis; a probability of zero adds nothing."""
    import numpy as np

    found: NDArray[np.float64] = -(probabilities * np.log(np.maximum(probabilities, _LEAST))).sum(axis=-1)
    return found


def per_class_scores(
    probabilities: NDArray[np.float64], member_of_class: NDArray[np.bool_], weights: Weights = "entropy"
) -> NDArray[np.float64]:
    """(8) and (9): probabilities [models, n, classes] and who is asked for what [models, classes] -> [n, classes].

    Arithmetic is in float64. Models that are asked for no class change nothing.
    """
    import numpy as np

    if weights not in _WEIGHTS:
        raise RecipeError(unknown("way of weighing models", str(weights), _WEIGHTS))
    asked = np.asarray(member_of_class, dtype=bool)
    if probabilities.ndim != 3 or asked.shape != (probabilities.shape[0], probabilities.shape[2]):
        raise RecipeError(
            f"probabilities are [models, n, classes], got {probabilities.shape}; who is asked is [models, classes], "
            f"got {asked.shape}"
        )
    if not asked.any(axis=0).all():
        raise RecipeError(f"no model is chosen for class number {int((~asked.any(axis=0)).argmax())}; each needs one")
    values = np.asarray(probabilities, dtype=np.float64)
    raw = _raw_weights(values, weights)
    score, total, count = (np.zeros(values.shape[1:]) for _ in range(3))
    plain = np.zeros(values.shape[1:])
    for member, own in enumerate(asked):  # one model after the other: no array of models x pictures x classes is made
        score[:, own] += raw[member][:, None] * values[member][:, own]
        total[:, own] += raw[member][:, None]
        plain[:, own] += values[member][:, own]
        count[:, own] += 1
    certain = total <= 0
    return np.where(certain, plain / count, score / np.where(certain, 1.0, total))


def _raw_weights(values: NDArray[np.float64], weights: Weights) -> NDArray[np.float64]:
    """What each model weighs on each picture [models, n], before division by the sum over a class's models."""
    import numpy as np

    if weights == "uniform":
        return np.ones(values.shape[:2])
    uncertain = np.stack([np.maximum(entropies(one), 0.0) for one in values])
    return uncertain if weights == "entropy" else 1.0 / np.maximum(uncertain, _LEAST)


def member_probabilities(
    member: Classifier, pictures: NDArray[np.uint8], head: Tensor, scale: Scale = 100.0
) -> NDArray[np.float64]:
    """The q of one model [n, classes] for pictures shaped for it; with `own` the scale is the one it was trained to."""
    import torch

    with torch.inference_mode():
        if scale == "own":
            scores = member.logits(pictures, head)
        else:
            features = getattr(member, "features", None)
            if features is None:
                raise RecipeError(
                    f"{member.label} gives scores only, no cosines, so a scale cannot be set; write scale: own"
                )
            scores = float(scale) * (features(pictures) @ head.T)
        found: NDArray[np.float64] = scores.double().softmax(dim=1).cpu().numpy()
    return found


class PerClass(Members):
    """One predictor out of several models, each asked for the classes that it was chosen for.

    `chosen` names for every class, in the order of the task's classes, the members that score it (as
    `Selection.chosen_names` gives them). Members that no class names are left out. They may prepare pictures
    differently: `scores_of` shapes raw pictures for each. `smelt.evaluate` shapes them once: there members must agree.
    """

    kind = "per class"

    def __init__(
        self,
        members: Mapping[str, Classifier],
        chosen: Sequence[Sequence[str]],
        weights: Weights = "entropy",
        scale: Scale = 100.0,
    ):
        if weights not in _WEIGHTS:
            raise RecipeError(unknown("way of weighing models", str(weights), _WEIGHTS))
        if scale != "own" and not (isinstance(scale, int | float) and math.isfinite(scale) and scale > 0):
            raise RecipeError(f"scale: a number above 0 that cosines are multiplied with, or own; got {scale!r}")
        if not chosen or not all(chosen):
            raise RecipeError("chosen: every class needs at least one model")
        for name in (name for one in chosen for name in one):
            if name not in members:
                raise RecipeError(f"chosen: {unknown('model', name, members)}")
        used = {name for one in chosen for name in one}
        self.members = {name: member for name, member in members.items() if name in used}
        self.chosen = tuple(tuple(dict.fromkeys(one)) for one in chosen)
        self.weights, self.scale = weights, scale

    @property
    def preprocess(self) -> Preprocess:
        """The members' own, where all have the same; else they can only be asked with `scores_of`."""
        try:
            return Members(self.members).preprocess
        except IncompatibleModels as error:
            raise IncompatibleModels(
                [*error.faults, "give raw pictures to scores_of"], cannot="be asked together"
            ) from None

    @property
    def asked(self) -> NDArray[np.bool_]:
        """Who is asked for which class [members, classes]."""
        import numpy as np

        return np.array([[name in one for one in self.chosen] for name in self.members], dtype=bool)

    @property
    def _words(self) -> Any:
        return [self.weights, self.scale, self.asked.astype(int).tolist()]

    def logits(self, pictures: NDArray[np.uint8], head: Any) -> Tensor:
        """Logarithms of the scores [n, classes], in fp64 and on the CPU so that close ones stay apart."""
        import numpy as np
        import torch

        scores = self._combined(
            member_probabilities(member, pictures, own, self.scale)
            for member, own in zip(self.members.values(), head, strict=True)
        )
        return torch.from_numpy(np.log(np.maximum(scores, _FLOOR)))

    def scores_of(
        self,
        pictures: Sequence[NDArray[np.uint8]],
        classes: Sequence[str],
        templates: Sequence[str] = ("a photo of a {}",),
        *,
        batch: int = 64,
    ) -> NDArray[np.float64]:
        """The scores [n, classes] of raw pictures [height, width, 3] of any sizes, shaped for each member by itself."""
        import numpy as np

        if not pictures:
            return np.zeros((0, len(self.chosen)))
        return self._combined(
            np.concatenate(
                [member_probabilities(member, part, head, self.scale) for part in _shaped(member, pictures, batch)]
            )
            for member, head in ((one, one.head(classes, templates)) for one in self.members.values())
        )

    def _combined(self, parts: Iterator[NDArray[np.float64]]) -> NDArray[np.float64]:
        import numpy as np

        probabilities = np.stack(list(parts))
        if probabilities.shape[2] != len(self.chosen):
            raise RecipeError(
                f"models are chosen for {len(self.chosen)} classes, but the task has {probabilities.shape[2]}; "
                "select again for this task"
            )
        return per_class_scores(probabilities, self.asked, self.weights)


def _shaped(member: Classifier, pictures: Sequence[NDArray[np.uint8]], batch: int) -> Iterator[NDArray[np.uint8]]:
    for start in range(0, len(pictures), batch):
        yield member.preprocess.shape(pictures[start : start + batch])
