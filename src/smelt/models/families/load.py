"""Which family a model belongs to, by its config.json alone, for those who have no task that would tell."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from smelt.models.families.causal_lm.family import CAUSAL_LM
from smelt.models.families.clip.family import CLIP
from smelt.models.families.image_text.architectures import architecture_of
from smelt.models.families.image_text.family import IMAGE_TEXT
from smelt.models.families.model_input import ModelInput

if TYPE_CHECKING:
    from smelt.models.families.family import Family, Loaded

__all__ = ["family_of", "load_any"]


def family_of(model: Any, *, allow_pickle: bool = False) -> Family:
    """The family of a reference, a Source, a module or a state dict.

    A class of pictures and texts is known by its `model_type`. Of the rest, one that has a picture tower, or that says
    nothing of itself (a bare state dict), is a CLIP; others write texts.
    """
    with closing(ModelInput.open(model, "model", allow_pickle=allow_pickle)) as given:
        config = given.config
        kind = architecture_of(config, given.names)
        written = config is None and callable(getattr(given.source, "config", None))  # a GGUF file
    if kind is not None:
        return IMAGE_TEXT
    if written:
        return CAUSAL_LM
    if config is None or config.get("model_type") in CLIP.model_types or "vision_config" in config:
        return CLIP
    return CAUSAL_LM


def load_any(
    model: Any, *, text_from: Any = None, device: str = "cpu", dtype: str = "float32", allow_pickle: bool = False
) -> Loaded:
    """A model in memory, by its own family; one that is loaded already is returned as it is."""
    if hasattr(model, "network"):
        loaded: Loaded = model
        return loaded
    family = family_of(model, allow_pickle=allow_pickle)
    return family.load(model, text_from=text_from, device=device, dtype=dtype, allow_pickle=allow_pickle)
