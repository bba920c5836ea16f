"""LOVM and ModelGPT: rank models for a task by what they make of TEXT about it, with a linear model on top.

Captions of the classes stand for their pictures. For a model with class weights c_y (means of its prompts' features):

    text_acc1, text_f1   captions, with N(0, 0.1²) added to every number, classified by the nearest c_y
    intraclass_sim       mean over y of the largest cos(c_y, c_y') over the others
    inter_close          mean cosine of captions to their own class
    intra_close          mean over y of the largest mean cosine of y's captions to another class
    superclass_metric    mean cosine of c_y to synonyms of y (the bare name where none are known)
    in_score             how the model does on a large known set: ImageNet in the papers, the hub's graph here

    predicted accuracy = b + sum_f a_f feature_f          ordinary least squares on tasks where the truth is known

Zohar et al. 2023 (LOVM), arXiv:2306.08893, as Tan et al. 2025 use it. Same as the authors' code: to rank models the
target is the accuracy minus the task's mean. Differs from it: captions and synonyms come from `captions.py`, not from
a language model; noise belongs to its place, (class, caption), so a caption meets the same noise in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, fields
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from smelt.errors import RecipeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.hub.matching.captions import Gloss
    from smelt.models.families.family import Classifier

__all__ = [
    "FEATURES",
    "Linear",
    "TaskTexts",
    "TextScores",
    "leave_one_out",
    "model_scores",
    "task_texts",
    "text_scores",
]

Table: TypeAlias = Mapping[str, Mapping[str, Any]]
"""{task: {model: value}}."""
_NOISE = 0.1


@dataclass(frozen=True)
class TextScores:
    """What a model makes of the texts of one task, and how it does on the large known set."""

    text_acc1: float
    text_f1: float
    intraclass_sim: float
    inter_close: float
    intra_close: float
    superclass_metric: float
    in_score: float = 0.0

    def values(self) -> tuple[float, ...]:
        """In the order of `FEATURES`."""
        return astuple(self)


FEATURES = tuple(one.name for one in fields(TextScores))


@dataclass(frozen=True)
class TaskTexts:
    """All that is read about a task: per class some captions and synonyms."""

    captions: tuple[tuple[str, ...], ...]
    synonyms: tuple[tuple[str, ...], ...]


def task_texts(classes: Sequence[str], gloss: Callable[[str], Gloss | None], *, domain: str, task: str) -> TaskTexts:
    """Eight captions and the known synonyms of every class, offline. `gloss` is `TemplateCaptions(graph).gloss`."""
    from smelt.hub.matching.captions import caption_variants

    known = [gloss(name) for name in classes]
    captions = [
        tuple(caption_variants(name, one, domain=domain, task=task)) for name, one in zip(classes, known, strict=True)
    ]
    others = [_synonyms(name, one) for name, one in zip(classes, known, strict=True)]
    return TaskTexts(tuple(captions), tuple(words or (name,) for name, words in zip(classes, others, strict=True)))


def _synonyms(name: str, gloss: Gloss | None) -> tuple[str, ...]:
    words = (word.replace("_", " ") for word in (gloss.names if gloss else ()))
    return tuple(word for word in words if word.lower() != name.replace("_", " ").lower())


def model_scores(
    model: Classifier,
    classes: Sequence[str],
    texts: TaskTexts,
    *,
    templates: Sequence[str] = ("a photo of a {}",),
    in_score: float = 0.0,
    seed: int = 0,
) -> TextScores:
    """The features of one model on one task; `model` must give features of texts, as CLIP models do."""
    read = getattr(model, "text_features", None)
    if read is None:
        raise RecipeError(f"{model.label} gives no features of texts, so it cannot be judged by them")

    def features(lines: Sequence[str]) -> NDArray[np.float64]:
        found: NDArray[np.float64] = read(list(lines)).detach().cpu().double().numpy()
        return found

    weights = model.head(classes, templates).detach().cpu().double().numpy()
    return text_scores(weights, features, texts, in_score=in_score, seed=seed)


def text_scores(
    weights: NDArray[np.float64],
    features: Callable[[Sequence[str]], NDArray[np.float64]],
    texts: TaskTexts,
    *,
    in_score: float = 0.0,
    noise: float = _NOISE,
    seed: int = 0,
) -> TextScores:
    """The features from class weights [classes, d] and a function that turns texts into unit rows."""
    counts = [len(one) for one in texts.captions]
    if len(counts) != len(weights) or len(texts.synonyms) != len(weights) or not all(counts):
        raise RecipeError(f"there are {len(weights)} classes; each needs captions and synonyms")
    truth = np.repeat(np.arange(len(weights)), counts)
    captions = features([text for one in texts.captions for text in one])
    cosines = captions @ weights.T
    moved = captions + _noise(counts, captions.shape[1], noise, seed)
    said = (moved @ weights.T).argmax(axis=1)
    means = np.stack([cosines[truth == number].mean(axis=0) for number in range(len(weights))])
    owners = np.repeat(np.arange(len(weights)), [len(one) for one in texts.synonyms])
    synonyms = features([text for one in texts.synonyms for text in one])
    return TextScores(
        text_acc1=float((said == truth).mean()),
        text_f1=_macro_f1(said, truth, len(weights)),
        intraclass_sim=_largest_other(weights @ weights.T),
        inter_close=float(cosines[np.arange(len(truth)), truth].mean()),
        intra_close=_largest_other(means),
        superclass_metric=float((synonyms * weights[owners]).sum(axis=1).mean()),
        in_score=in_score,
    )


def _noise(counts: Sequence[int], width: int, noise: float, seed: int) -> NDArray[np.float64]:
    return noise * np.stack(
        [
            np.random.default_rng([seed, number, place]).standard_normal(width)
            for number, count in enumerate(counts)
            for place in range(count)
        ]
    )


def _macro_f1(said: NDArray[np.int64], truth: NDArray[np.int64], classes: int) -> float:
    hits = np.bincount(truth[said == truth], minlength=classes)
    both = np.bincount(truth, minlength=classes) + np.bincount(said, minlength=classes)
    return float((2 * hits / both).mean())


def _largest_other(table: NDArray[np.float64]) -> float:
    """The mean over rows of the largest number beside the diagonal; 0 where there is no other."""
    if len(table) < 2:
        return 0.0
    return float(np.where(np.eye(len(table), dtype=bool), -np.inf, table).max(axis=1).mean())


@dataclass(frozen=True, eq=False)
class Linear:
    """A linear model: intercept and one coefficient for each feature."""

    intercept: float
    coefficients: NDArray[np.float64]

    @classmethod
    def fit(cls, features: Sequence[Sequence[float] | NDArray[np.float64]], targets: Sequence[float]) -> Linear:
        """Ordinary least squares; of several that fit alike the one with the smallest coefficients."""
        rows, aims = np.array(features, dtype=np.float64), np.array(targets, dtype=np.float64)
        if rows.ndim != 2 or len(rows) != len(aims) or not len(rows):
            raise RecipeError(f"a linear model needs a row of features for each target, got {rows.shape}, {aims.shape}")
        middle = rows.mean(axis=0)  # centred, so that the intercept is not held small
        found, *_ = np.linalg.lstsq(rows - middle, aims - aims.mean(), rcond=None)
        return cls(float(aims.mean() - middle @ found), found)

    def predict(self, models: Mapping[str, Any]) -> dict[str, float]:
        """{model: its predicted accuracy} from {model: its TextScores or features}."""
        return {name: float(self.intercept + self.coefficients @ _row(one)) for name, one in models.items()}


def leave_one_out(scores: Table, accuracies: Table, *, centred: bool = True) -> dict[str, dict[str, float]]:
    """{task: {model: prediction}}, each task predicted by a linear model of all the others.

    `centred`: accuracies are minus the mean of their task, which is what ranks models.
    """
    if len(scores) < 2:
        raise RecipeError("leaving one task out needs at least two tasks")
    found = {}
    for task, asked in scores.items():
        rows, aims = [], []
        for other in (name for name in scores if name != task):
            known = accuracies[other]
            mean = sum(known[model] for model in scores[other]) / len(scores[other]) if centred else 0.0
            rows += [_row(one) for one in scores[other].values()]
            aims += [known[model] - mean for model in scores[other]]
        found[task] = Linear.fit(rows, aims).predict(asked)
    return found


def _row(one: Any) -> NDArray[np.float64]:
    return np.array(one.values() if isinstance(one, TextScores) else one, dtype=np.float64)
