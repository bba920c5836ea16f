"""Families: one file per architecture, with what Smelt has to know of it and cannot read from the weights.

Loaded when first used: a merge asks only for the kinds of models with a frozen part (image_text_kinds.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smelt.models.families.family import Classifier, Family, Loaded

    FAMILIES: dict[str, Family]

__all__ = ["FAMILIES", "Classifier", "Family", "Loaded"]


def __getattr__(name: str) -> Any:
    if name == "FAMILIES":
        from smelt.models.families.causal_lm.family import CAUSAL_LM
        from smelt.models.families.clip.family import CLIP
        from smelt.models.families.image_text.family import IMAGE_TEXT

        return {CLIP.name: CLIP, CAUSAL_LM.name: CAUSAL_LM, IMAGE_TEXT.name: IMAGE_TEXT}
    if name in __all__:
        from smelt.models.families import family

        return getattr(family, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
