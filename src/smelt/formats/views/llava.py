"""LLaVA under the names that it has in memory in transformers 5, whatever layout its files have.

Public files, and those that `save_pretrained` writes, say `language_model.model.layers.0...` where the model and the
adapters trained over it say `model.language_model.layers.0...`. Here all say the latter, so that they merge; the
library loads both.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from smelt.formats.source import Source
from smelt.formats.views.renamed import renamed
from smelt.formats.views.view import views

__all__ = ["LANGUAGE", "LLAVA_NAMES", "PROJECTOR", "TOWER", "LlavaNames"]

TOWER = "model.vision_tower."
PROJECTOR = "model.multi_modal_projector."
LANGUAGE = "model.language_model."
_OLDER = {
    "language_model.lm_head.": "lm_head.",
    "language_model.model.": LANGUAGE,
    "language_model.": LANGUAGE,
    "vision_tower.": TOWER,
    "multi_modal_projector.": PROJECTOR,
}
"""Beginnings of names in files (public ones, and all that `save_pretrained` writes) -> in memory. The first counts."""
_INNER = f"{TOWER}vision_model."
"""Before transformers 5 a CLIP tower had one more level of names."""


class LlavaNames:
    """The names of a LLaVA's tensors. Its vision tower is frozen in training and the same in all fine-tunes."""

    model_type = "llava"
    model_types = (model_type,)
    prefixes = (TOWER,)
    suffixes = ()
    frozen = TOWER

    def recognises(self, config: Mapping[str, Any] | None, names: Collection[str]) -> bool:
        """By the config; tensors that come without one by the names of the three parts."""
        if config is not None:
            return config.get("model_type") == self.model_type
        return all(any(name.startswith(part) for name in names) for part in (TOWER, PROJECTOR, LANGUAGE))

    def common(self, name: str) -> str:
        """A stored name, of whatever layout, as the model in memory has it."""
        for older, now in _OLDER.items():
            if name.startswith(older):
                name = now + name.removeprefix(older)
                break
        return TOWER + name.removeprefix(_INNER) if name.startswith(_INNER) else name

    def of(self, source: Source) -> Source:
        """The source itself, or a view of it where its names are others."""
        if all(self.common(name) == name for name in source.tensors):
            return source
        return renamed(source, self.common)


LLAVA_NAMES = LlavaNames()
views["llava"] = LLAVA_NAMES
