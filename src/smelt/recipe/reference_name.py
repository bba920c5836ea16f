"""The name of a model that has none: read from its reference alone, nothing is opened."""

from __future__ import annotations

import re

__all__ = ["ref_name"]


def ref_name(ref: str) -> str:
    """The name a model gets when the recipe gives none: the last part of its path, `+` its adapter's."""
    parts = [re.sub("^[a-z]+:", "", part.split("@")[0].rstrip("/").rsplit("/", 1)[-1]) for part in ref.split("+")]
    return "+".join(part.removesuffix(".safetensors").removesuffix(".gguf") for part in parts if part)
