"""Collaborations as a family: a folder that `smelt neulig` wrote is evaluated like any model of pictures."""

from __future__ import annotations

from typing import Any

from smelt.errors import RecipeError
from smelt.learning.neulig.note import NOTE
from smelt.models.families.family import Family, families

__all__ = ["CollaborationFamily"]


class CollaborationFamily(Family):
    """Known by its neulig.json."""

    name = "collaboration"
    model_kinds = frozenset({"classifier"})
    marker = NOTE

    def load(self, model: Any, *, text_from: Any = None, device: str = "cpu", dtype: str = "float32", **_: Any) -> Any:
        """A Collaboration from its folder, merged for every picture."""
        from smelt.learning.neulig.classifier import load_collaboration

        if text_from is not None:
            raise RecipeError(f"{model}: a collaboration has the text tower of its own base; leave text_from out")
        return load_collaboration(model, device=device, dtype=dtype)


families[CollaborationFamily.name] = CollaborationFamily()
