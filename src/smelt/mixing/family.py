"""Mixed models as a family: a folder that `smelt mix` wrote is evaluated like any model of pictures."""

from __future__ import annotations

from typing import Any

from smelt.mixing.mix_note import NOTE
from smelt.models.families.family import Family, families

__all__ = ["MixedFamily"]


class MixedFamily(Family):
    """Known by its mix.json."""

    name = "mixed"
    model_kinds = frozenset({"classifier"})
    marker = NOTE

    def load(self, model: Any, **how: Any) -> Any:
        """A MixedClassifier from its folder."""
        from smelt.mixing.classifier import load_mixed

        return load_mixed(model, **how)


families[MixedFamily.name] = MixedFamily()
