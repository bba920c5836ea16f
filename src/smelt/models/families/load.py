"""Loading a model of any family: by the kind that tasks ask for, and by its config where that leaves a choice."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError
from smelt.models.families.family import Family, families
from smelt.models.families.model_input import ModelInput
from smelt.models.references import local_path
from smelt.models.served.model import ServedModel

__all__ = ["family_of", "kind_of_loaded", "load"]

_LOADING, _LOADED = threading.RLock(), set[str]()


def family_of(model: Any, model_kind: str | None = None, *, allow_pickle: bool = False) -> Family:
    """The family of a reference, a Source, a module or a state dict, among those of the kind that tasks ask for.

    Families are asked from the most special to the most general: those of plug-ins, then Smelt's own. Without a kind a
    class of pictures and texts is known by its `model_type`. Of the rest, one that has a picture tower, or that says
    nothing of itself (a bare state dict), is a CLIP; others write texts.
    """
    asked = [one for one in reversed(list(families.values())) if model_kind is None or model_kind in one.model_kinds]
    path = local_path(str(model)) if model_kind is not None and isinstance(model, str | Path) else None
    for one in asked:
        if path is not None and one.marker is not None and (path / one.marker).is_file():
            return one
    if not asked:
        raise RecipeError(f"no family of models is a {model_kind}, which the tasks ask for; a plug-in may add one")
    *special, general = (one for one in asked if one.marker is None)
    if not special:
        return general
    with closing(ModelInput.open(model, "model", allow_pickle=allow_pickle)) as given:
        return next((one for one in special if one.recognises(given)), general)


def load(
    model: Any,
    model_kind: str | None = None,
    *,
    text_from: Any = None,
    device: str = "cpu",
    dtype: str = "float32",
    allow_pickle: bool = False,
) -> Any:
    """A model in memory, of the kind that tasks ask for; one that is loaded so is returned as it is.

    A `classifier` tells pictures apart (Classifier), a `causal_lm` writes (CausalLM), an `image_text` answers about
    pictures (ImageText), a `text_matcher` says how well two texts match (Embedder, CrossEncoder), a `text_classifier`
    gives a text a label or a score (TextClassifier). Without a kind it is loaded as what it is.

    `model` is a reference (a folder, BASE+ADAPTER, zoo:, hf:, a GGUF file), a Source, a module or a state dict;
    `text_from` gives what it lacks: config, tokenizer, processor, for a picture tower the text tower.
    """
    if hasattr(model, "network") if model_kind is None else kind_of_loaded(model) == model_kind:
        return model
    family = family_of(model, model_kind, allow_pickle=allow_pickle)
    with _first_alone(family.name):
        return family.load(model, text_from=text_from, device=device, dtype=dtype, allow_pickle=allow_pickle)


@contextmanager
def _first_alone(family: str) -> Iterator[None]:
    """The first model of a family is loaded by one thread: libraries that import their parts late do not stand two."""
    if family in _LOADED:
        yield
        return
    with _LOADING:
        yield
        _LOADED.add(family)


def kind_of_loaded(model: Any) -> str | None:
    """The kind of a model in memory; nothing for one that is still to be loaded."""
    if isinstance(model, ServedModel):
        return model.model_kind
    if hasattr(model, "tokenizer") and hasattr(model, "module"):
        if hasattr(model, "classify"):
            return "text_classifier"
        return "image_text" if hasattr(model, "tower_hash") else "causal_lm"
    if hasattr(model, "match") and hasattr(model, "rank"):
        return "text_matcher"
    return "classifier" if hasattr(model, "logits") and hasattr(model, "head") else None
