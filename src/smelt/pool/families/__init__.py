"""Families: one file per architecture, with what Smelt has to know of it and cannot read from the weights."""

from __future__ import annotations

from smelt.pool.families.clip import CLIP
from smelt.pool.families.family import Classifier, Family

__all__ = ["FAMILIES", "Classifier", "Family"]

FAMILIES: dict[str, Family] = {CLIP.name: CLIP}
