"""Models of pictures and texts: Hugging Face's image-text-to-text classes, of which llava.py is one.

The vision tower is the same in all models of a pool and left as it is; projector and language model are merged. Built
without numbers and filled tensor by tensor, like language models (causal_lm/), from any Source: a folder in either
layout of names, an adapter over its base, a state dict. The chat template is the processor's, else the tokenizer's.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from smelt.errors import RecipeError
from smelt.files.reading import read_json
from smelt.models.families.causal_lm.tokenizer import (
    check_vocabulary,
    no_tokenizer,
    read_tokenizer,
    tokenizer_place,
    with_generation_config,
)
from smelt.models.families.empty_model import empty_image_text
from smelt.models.families.family import Family, families
from smelt.models.families.image_text.architectures import ARCHITECTURES, Architecture, architecture_of
from smelt.models.families.image_text.llava import LLAVA
from smelt.models.families.image_text.model import ImageText
from smelt.models.families.load_weights import load_weights
from smelt.models.families.model_input import ModelInput, known_config
from smelt.models.families.preprocess import Preprocess

__all__ = ["IMAGE_TEXT", "ImageTextFamily"]

_TEMPLATES = ("chat_template.json", "processor_config.json")
"""Where older processors keep their chat template; newer ones have a chat_template.jinja, which tokenizers read."""


class ImageTextFamily(Family):
    """How models of pictures and texts are known, merged and loaded."""

    name = "image_text"
    model_kinds = frozenset({"image_text"})
    loaded_type = ImageText
    model_types = frozenset(ARCHITECTURES)
    merged = LLAVA.merged  # of the class whose tower is frozen; of all others everything is

    def recognises(self, model: ModelInput) -> bool:
        """By its config, else by the names of its tensors."""
        return architecture_of(model.config, model.names) is not None

    def reopen(self, loaded: ImageText) -> ModelInput:
        """With its processor."""
        return dataclasses.replace(super().reopen(loaded), preprocess=loaded.preprocess)

    def assemble(self, given: ModelInput, text: ModelInput, device: str, dtype: str) -> ImageText:
        """A model; `text` gives config, tokenizer and processor where `given` has none."""
        import torch

        config = known_config(given, text)
        kind = architecture_of(config)
        if kind is None:
            raise RecipeError(
                f"{given.label}: is a model of type {config.get('model_type')!r}, which answers no questions about "
                f"pictures; of the models of pictures and texts Smelt knows: {', '.join(ARCHITECTURES)}"
            )
        tokenizer, template, folder = _words(given, text)
        module = empty_image_text(config, given.label)
        filled = load_weights(
            module, given, device, getattr(torch, dtype), parts=[kind.tower], common_name=kind.names.common
        )
        module = module.requires_grad_(False).eval().to(device)
        with_generation_config(module, folder)
        check_vocabulary(given.label, module, tokenizer)
        preprocess = _preprocess(given, text, folder)
        return ImageText(
            label=given.label,
            module=module,
            tokenizer=tokenizer,
            template=template,
            preprocess=preprocess,
            kind=kind,
            config=dict(config),
            device=device,
            dtype=dtype,
            hash=filled.hash,
            tower_hash=_tower_hash(filled.parts[kind.tower], kind, module.config.to_dict(), preprocess, device, dtype),
            folder=folder,
        )


def _words(given: ModelInput, text: ModelInput) -> tuple[Any, str, Path | None]:
    """The tokenizer and the chat template of the model, else those of `text_from`; and the folder they lie in."""
    for one in (given, text):
        if isinstance(one.origin, ImageText):
            return one.origin.tokenizer, one.origin.template, one.origin.folder
        place = tokenizer_place(one)
        if place is not None:
            tokenizer = read_tokenizer(*place)
            template = _template(place[0]) or tokenizer.chat_template
            if not isinstance(template, str):
                raise RecipeError(
                    f"{given.label}: has no chat template in {place[0]}, so it is not known how a picture and a "
                    "question are put to it; add a chat_template.jinja"
                )
            return tokenizer, template, place[0]
    raise no_tokenizer(given.label)


def _template(folder: Path) -> str | None:
    for name in _TEMPLATES:
        content = read_json(folder / name) if (folder / name).is_file() else None
        if isinstance(content, dict) and isinstance(content.get("chat_template"), str):
            return str(content["chat_template"])
    return None


def _preprocess(given: ModelInput, text: ModelInput, folder: Path | None) -> Preprocess:
    found = given.preprocess or text.preprocess or (Preprocess.load(folder) if folder else None)
    if found is None:
        raise RecipeError(
            f"{given.label}: has no preprocessor_config.json or processor_config.json, so it is not known how its "
            "pictures are prepared; copy the base model's, or say with text_from which model has it"
        )
    return found


def _tower_hash(
    numbers: str, kind: Architecture, config: Mapping[str, Any], preprocess: Preprocess, device: str, dtype: str
) -> str:
    said = [numbers, kind.seen(config), dataclasses.astuple(preprocess), device.split(":")[0], dtype]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


IMAGE_TEXT = ImageTextFamily()
families[IMAGE_TEXT.name] = IMAGE_TEXT
