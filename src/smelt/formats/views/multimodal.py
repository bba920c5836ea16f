"""Models that see and read under the names that they have in memory in transformers 5, whatever their files say.

    Qwen2-VL, Qwen2.5-VL        visual.blocks.0...  model.layers.0...        model.visual...  model.language_model...
    PaliGemma, Gemma 3, ...     vision_tower.vision_model...                 model.vision_tower...
                                language_model.model.layers.0...             model.language_model.layers.0...
    Mllama                      vision_model...  language_model.lm_head...   model.vision_model...  lm_head...
    Qwen3-VL, Idefics, SmolVLM  the same in files and in memory

Public files, those that transformers 4 wrote and those that transformers 5 writes differ in these beginnings only.
Here all have the last form, so that they merge, and so do adapters trained over them. The library loads it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from smelt.formats.source import Source
from smelt.formats.views.renamed import renamed
from smelt.formats.views.view import views

__all__ = ["LAYOUTS", "TOWER_NAMES", "MultimodalNames"]


@dataclass(frozen=True)
class MultimodalNames:
    """One family of layouts."""

    model_types: tuple[str, ...]
    parts: tuple[str, ...]
    """How the names of its parts begin in memory, the vision tower first; a model without a config has all of them."""
    older: Mapping[str, str]
    """Beginnings of names in files -> in memory. The first that fits counts."""
    inner: str = ""
    """A beginning with one level of names too many, as towers had before transformers 5; its last level is left out."""
    frozen: str | None = None

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Without a config it may be the right one where the vision tower, the first part, has one of its names."""
        tower = self.parts[0]
        return (tower, *(older for older, now in self.older.items() if now == tower))

    def recognises(self, config: Mapping[str, Any] | None, names: Collection[str]) -> bool:
        """By the config; tensors that come without one by the names of all parts."""
        if config is not None:
            return config.get("model_type") in self.model_types
        common = [self.common(name) for name in names]
        return all(any(name.startswith(part) for name in common) for part in self.parts)

    def common(self, name: str) -> str:
        """A stored name, of whatever layout, as the model in memory has it."""
        if not name.startswith(self.parts):
            for older, now in self.older.items():
                if name.startswith(older):
                    name = now + name.removeprefix(older)
                    break
        if self.inner and name.startswith(self.inner):
            name = f"{self.inner.rstrip('.').rpartition('.')[0]}.{name.removeprefix(self.inner)}"
        return name

    def of(self, source: Source) -> Source:
        """The source itself, or a view of it where its names are others."""
        if all(self.common(name) == name for name in source.tensors):
            return source
        return renamed(source, self.common)


TOWER_NAMES = {
    "language_model.lm_head.": "lm_head.",
    "language_model.model.": "model.language_model.",
    "language_model.": "model.language_model.",
    "vision_tower.": "model.vision_tower.",
    "multi_modal_projector.": "model.multi_modal_projector.",
    "image_newline": "model.image_newline",
}
"""LLaVA and the many classes that were built after it."""

LAYOUTS = {
    "tower": MultimodalNames(
        ("llava_next", "paligemma", "gemma3", "internvl", "vipllava", "aya_vision", "mistral3", "llava_onevision"),
        ("model.vision_tower.", "model.multi_modal_projector.", "model.language_model."),
        TOWER_NAMES,
        inner="model.vision_tower.vision_model.",
    ),
    "qwen_vl": MultimodalNames(
        ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"),
        ("model.visual.", "model.language_model."),
        {"visual.": "model.visual.", "model.": "model.language_model."},
    ),
    "mllama": MultimodalNames(
        ("mllama",),
        ("model.vision_model.", "model.multi_modal_projector.", "model.language_model."),
        {
            "language_model.lm_head.": "lm_head.",
            "language_model.model.": "model.language_model.",
            "vision_model.": "model.vision_model.",
            "multi_modal_projector.": "model.multi_modal_projector.",
        },
    ),
}
for _name, _layout in LAYOUTS.items():
    views[_name] = _layout
