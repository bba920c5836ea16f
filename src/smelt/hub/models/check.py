"""The check of a model before anybody sees it: it loads, and what it makes of pictures and words is finite."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from smelt.errors import NumericalError, RecipeError, SmeltError
from smelt.files.reading import read_text

if TYPE_CHECKING:
    from smelt.hub.graph.graph import SemanticGraph
    from smelt.models.families.family import Classifier
    from smelt.models.families.preprocess import Preprocess

__all__ = ["Facts", "check_model", "preprocess_from", "preprocess_words"]

_LICENCE = re.compile(r"\A---\n(?:.*\n)*?license:[ \t]*['\"]?([^'\"\n]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Facts:
    """What the check found out about a model."""

    hash: str
    family: str
    architecture: str
    parameters: int
    preprocess: str
    description: str
    licence: str


def check_model(ref: str, folder: Path, graph: SemanticGraph) -> Facts:
    """Load a model and try it on two pictures of the graph and two words."""
    from smelt.hub.labels.label import identity_of
    from smelt.models.families.load import load
    from smelt.models.references import open_ref
    from smelt.models.zoo.catalogue import first_sentence

    try:
        model = load(ref, "classifier")
        _try(model, graph)
    except SmeltError:
        raise
    except Exception as error:  # whatever a library says of a folder that somebody sent
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise RecipeError(f"the model does not load ({type(error).__name__}: {reason})") from error
    config: Mapping[str, Any] = getattr(model, "config", {})
    family = _family(model)
    if family == "open_clip":  # beside its weights may lie others
        parameters = sum(tensor.numel() for tensor in model.model.parameters())
    else:
        with closing(open_ref(ref)) as source:
            parameters = sum(info.count for info in source.tensors.values())
    card = folder / "README.md"
    licence = _LICENCE.search(read_text(card)) if card.is_file() else None
    return Facts(
        identity_of(model),
        family,
        _open_clip_architecture(config) if family == "open_clip" else _architecture(config),
        parameters,
        preprocess_words(model.preprocess),
        first_sentence(card),
        licence[1].strip() if licence else "",
    )


def preprocess_words(preprocess: Preprocess) -> str:
    """How a model prepares pictures, as JSON."""
    return json.dumps(dataclasses.asdict(preprocess), sort_keys=True)


def preprocess_from(words: str) -> Preprocess:
    """The same back."""
    from smelt.models.families.preprocess import Preprocess

    content: Any = {key: tuple(value) if isinstance(value, list) else value for key, value in json.loads(words).items()}
    return Preprocess(**content)


def _try(model: Classifier, graph: SemanticGraph) -> None:
    import numpy as np
    import torch

    pictures = graph.pixels(sorted({0, len(graph.pictures) - 1})) if graph.pictures else []
    pictures = pictures or [np.zeros((32, 32, 3), dtype=np.uint8)]
    head = model.head(["dog", "cat"], ["a photo of a {}"])
    features = getattr(model, "features", None)
    if features is None:
        raise RecipeError(f"{model.label}: gives scores only, but a label needs picture and text features")
    shaped = np.concatenate([model.preprocess.shape([picture]) for picture in pictures])
    seen = features(shaped)
    for what, values in (("text", head), ("picture", seen)):
        if not bool(torch.isfinite(values).all()):
            raise NumericalError(f"the model's {what} features are NaN or infinite; its weights are not sound")


def _family(model: Classifier) -> str:
    from smelt.models.families.family import families

    found = (name for name, one in families.items() if one.loaded_type and isinstance(model, one.loaded_type))
    return next(found, "clip")


def _open_clip_architecture(config: Mapping[str, Any]) -> str:
    """`open_clip convnext_base, 256 px`"""
    vision = config["vision_cfg"]
    tower = vision.get("timm_model_name") or ("ResNet" if isinstance(vision.get("layers"), list) else "ViT")
    kind = "CoCa " if "multimodal_cfg" in config else ""
    text = config["text_cfg"].get("hf_model_name")
    parts = [f"open_clip {kind}{tower}", f"{vision['image_size']} px" if "image_size" in vision else "", text or ""]
    return ", ".join(part for part in parts if part)


def _architecture(config: Mapping[str, Any]) -> str:
    """`CLIP ViT, 6 layers of 384, patch 8, 32 px`"""
    vision = config.get("vision_config", {})
    kind = str(vision.get("model_type", config.get("model_type", ""))).removesuffix("_vision_model")
    if kind != "clip":
        side = vision.get("image_size")
        return f"CLIP {kind}" + (f", {side} px" if isinstance(side, int) else "")
    words = (("num_hidden_layers", "{} layers"), ("hidden_size", "width {}"), ("patch_size", "patch {}"))
    parts = [text.format(vision[key]) for key, text in (*words, ("image_size", "{} px")) if key in vision]
    return ", ".join(["CLIP ViT", *parts])
