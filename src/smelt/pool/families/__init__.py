"""Families: one file per architecture, with what Smelt has to know of it and cannot read from the weights."""

from __future__ import annotations

from smelt.pool.families.causal_lm import CAUSAL_LM
from smelt.pool.families.clip import CLIP
from smelt.pool.families.family import Classifier, Family, Loaded
from smelt.pool.families.image_text import IMAGE_TEXT

__all__ = ["FAMILIES", "Classifier", "Family", "Loaded"]

FAMILIES: dict[str, Family] = {CLIP.name: CLIP, CAUSAL_LM.name: CAUSAL_LM, IMAGE_TEXT.name: IMAGE_TEXT}
