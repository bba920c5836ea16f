"""Models that see and read: the names of vision tower, projector and language model in files of all versions.

Qwen2-VL, Qwen2.5-VL        visual.blocks.0...  model.layers.0...        model.visual...  model.language_model...
PaliGemma, Gemma 3, ...     vision_tower.vision_model...                 model.vision_tower...
language_model.model.layers.0...             model.language_model.layers.0...
Mllama                      vision_model...  language_model.lm_head...   model.vision_model...  lm_head...
Qwen3-VL, Idefics, SmolVLM  the same in files and in memory
"""

from __future__ import annotations

from smelt.formats.views.older_names import OlderNames
from smelt.formats.views.view import views

__all__ = ["TOWER_NAMES"]

TOWER_NAMES = {
    "language_model.lm_head.": "lm_head.",
    "language_model.model.": "model.language_model.",
    "language_model.": "model.language_model.",
    "vision_tower.": "model.vision_tower.",
    "multi_modal_projector.": "model.multi_modal_projector.",
    "image_newline": "model.image_newline",
}
"""LLaVA and the many classes that were built after it."""

views["tower"] = OlderNames(
    ("llava_next", "paligemma", "gemma3", "internvl", "vipllava", "aya_vision", "mistral3", "llava_onevision"),
    TOWER_NAMES,
    ("model.vision_tower.", "model.multi_modal_projector.", "model.language_model."),
    inner="model.vision_tower.vision_model.",
)
views["qwen_vl"] = OlderNames(
    ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe"),
    {"visual.": "model.visual.", "model.": "model.language_model."},
    ("model.visual.", "model.language_model."),
)
views["mllama"] = OlderNames(
    ("mllama",),
    {
        "language_model.lm_head.": "lm_head.",
        "language_model.model.": "model.language_model.",
        "vision_model.": "model.vision_model.",
        "multi_modal_projector.": "model.multi_modal_projector.",
    },
    ("model.vision_model.", "model.multi_modal_projector.", "model.language_model."),
)
