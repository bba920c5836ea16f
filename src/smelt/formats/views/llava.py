"""LLaVA under the names that it has in memory in transformers 5, whatever layout its files have.

Public files, and those that `save_pretrained` writes, say `language_model.model.layers.0...` where the model and the
adapters trained over it say `model.language_model.layers.0...`. Here all say the latter, so that they merge; the
library loads both. Its vision tower is frozen in training and the same in all fine-tunes.
"""

from __future__ import annotations

from smelt.formats.views.multimodal import TOWER_NAMES
from smelt.formats.views.older_names import OlderNames
from smelt.formats.views.view import views

__all__ = ["LANGUAGE", "LLAVA_NAMES", "PROJECTOR", "TOWER"]

TOWER = "model.vision_tower."
PROJECTOR = "model.multi_modal_projector."
LANGUAGE = "model.language_model."

LLAVA_NAMES = OlderNames(
    ("llava",), TOWER_NAMES, (TOWER, PROJECTOR, LANGUAGE), inner=f"{TOWER}vision_model.", frozen=TOWER
)
views["llava"] = LLAVA_NAMES
