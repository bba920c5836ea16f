"""The public call: `smelt.ensemble(models)` -> a predictor that `smelt.evaluate` takes like any model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from smelt.ensembles.scores import Ensemble, MaxModel
from smelt.errors import RecipeError

__all__ = ["ensemble"]


def ensemble(
    models: Mapping[str, Any] | Sequence[Any],
    *,
    kind: Literal["mean", "max"] = "mean",
    weights: Mapping[str, float] | Sequence[float] | None = None,
    on: Literal["logits", "probabilities"] = "logits",
    text_from: Any = None,
    device: str = "cpu",
    dtype: str = "float32",
    allow_pickle: bool = False,
) -> Ensemble | MaxModel:
    """Ask several models at once: `smelt.evaluate(smelt.ensemble({"a": A, "b": B}), tasks)`.

    `models` is a table {name: model} or a list, where a model is whatever `smelt.evaluate` takes. `kind` is the mean of
    their answers (with `weights`, `on="logits"` or `"probabilities"`) or the largest score of each class ("max"). All
    models are loaded once and stay in memory; each is run once for every picture. `text_from` gives the text tower to
    models that are a picture tower alone.
    """
    from smelt.models.families.load import load

    words: dict[str, Any] = {
        "text_from": text_from,
        "device": device,
        "dtype": dtype,
        "allow_pickle": allow_pickle,
    }
    loaded = {name: load(model, "classifier", **words) for name, model in _named(models).items()}
    if kind == "mean":
        return Ensemble(loaded, weights, on)
    if kind != "max":
        raise RecipeError(f"kind: an ensemble is the mean or the max of its members' scores, got {kind!r}")
    if weights is not None or on != "logits":
        raise RecipeError("the largest score of each class has no weights and is of logits; leave both words out")
    return MaxModel(loaded)


def _named(models: Mapping[str, Any] | Sequence[Any]) -> dict[str, Any]:
    if isinstance(models, Mapping):
        return {str(name): model for name, model in models.items()}
    if not isinstance(models, Sequence) or isinstance(models, str):
        raise RecipeError(f"models are a table {{name: model}} or a list, got {type(models).__name__}")
    from smelt.recipe.reference_name import ref_name

    named: dict[str, Any] = {}
    for number, model in enumerate(models, 1):
        name = ref_name(str(model)) if isinstance(model, str | Path) else getattr(model, "label", f"model-{number}")
        named[name if name not in named else f"{name}-{number}"] = model
    return named
