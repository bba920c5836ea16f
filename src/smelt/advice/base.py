"""What a base tells of itself: whether it is a language model, its kind and its size. Nothing is downloaded for it."""

from __future__ import annotations

import re

from smelt.advice.rules import rules
from smelt.errors import RecipeError

__all__ = ["is_language_model", "kind_of_name", "parameters_of", "shapes_of"]

_CLASSES = ("ForCausalLM", "LMHeadModel")
"""How configs name the classes of models that continue texts."""


def kind_of_name(ref: str) -> str:
    """`hf:google/gemma-2-2b-it` is an instruction-tuned base, by the words of its own name, without its folders'."""
    words = re.split(r"[^a-z0-9]+", ref.lower().rstrip("/").rpartition("/")[2])
    return "instruct" if set(words) & set(rules().instruct) else "pretrained"


def is_language_model(ref: str | None) -> bool:
    """Whether the base is known to be one, by its config. False where nothing is known; anything else is refused."""
    if ref is None or _far_away(ref):
        return False
    from smelt.formats.architecture.config import read_config
    from smelt.models.references import open_ref

    source = open_ref(ref)
    try:
        if callable(getattr(source, "config", None)):  # a GGUF file: llama.cpp's
            return True
        config = read_config(source.folder) or {}
        sees = any("vision" in name or name.startswith("visual.") for name in source.tensors)
    finally:
        source.close()
    listed = config.get("architectures")
    classes = [str(name) for name in listed] if isinstance(listed, list) else []
    if any(name.endswith(_CLASSES) for name in classes):
        return True
    if classes or sees or "vision_config" in config:
        what = f"a {classes[0]}" if classes else "a model of pictures"
        raise RecipeError(
            f"{ref} is {what}, and all rows that advice rests on are of language models that continue texts; choose "
            "among what `smelt methods` lists, and compare by `smelt eval`"
        )
    return False


def _far_away(ref: str) -> bool:
    """Whether it would have to be downloaded first."""
    return ref.startswith("hf:") or "+hf:" in ref


def parameters_of(ref: str) -> float | None:
    """Billions of parameters, from headers; None for a model that would have to be downloaded first."""
    from math import prod

    shapes = shapes_of(ref)
    return None if shapes is None else sum(map(prod, shapes.values())) / 1e9


def shapes_of(ref: str) -> dict[str, tuple[int, ...]] | None:
    """The shapes of a model's tensors, from headers; None for a model that would have to be downloaded first."""
    if _far_away(ref):
        return None
    from smelt.models.references import open_ref

    source = open_ref(ref)
    try:
        return {name: info.shape for name, info in source.tensors.items()}
    finally:
        source.close()
