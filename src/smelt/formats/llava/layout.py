"""LLaVA's own layout: how a checkpoint of its training code is known, and what Hugging Face calls its tensors.

    model.layers.0...                                      model.language_model.layers.0...
    model.mm_projector.0.weight, model.mm_projector.2...   model.multi_modal_projector.linear_1.weight, linear_2...
    model.vision_tower.vision_tower.vision_model...        model.vision_tower...        (mostly not in the checkpoint)
    lm_head.weight                                         lm_head.weight

Its config.json is that of a Llama with `mm_` words (`mm_vision_tower`, `mm_projector_type`); the `model_type` is
`llava_llama`, in older files `llava`, which Hugging Face's own has too. Liu et al. 2023, arXiv:2310.03744.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from smelt.errors import RecipeError
from smelt.formats.views.llava import LANGUAGE, PROJECTOR, TOWER

__all__ = ["PROJECTOR_FILE", "check_known", "common_name", "is_own_layout", "tower_name"]

PROJECTOR_FILE = "mm_projector.bin"
"""What the first stage of training leaves: the projector alone."""
_TYPES = ("llava_llama", "llava")
_TOWER = "model.vision_tower.vision_tower."
_INNER = "vision_model."
_LINEAR = {"0": "linear_1", "2": "linear_2"}
_PROJECTED = re.compile(r"^model\.mm_projector\.(?P<layer>\d+)\.(?P<end>weight|bias)$")
_CONSTANT = ("rotary_emb.inv_freq", "embeddings.position_ids")
"""Numbers that older libraries stored beside the weights, and that follow from the config."""


def is_own_layout(config: Mapping[str, Any] | None) -> bool:
    """Whether a config.json is one of LLaVA's own training code."""
    known = config or {}
    return known.get("model_type") in _TYPES and "text_config" not in known and "mm_projector_type" in known


def check_known(config: Mapping[str, Any], where: str) -> None:
    """Refuse what Hugging Face's LLaVA has no place for."""
    kind = config.get("mm_projector_type")
    if kind != "mlp2x_gelu":
        raise RecipeError(
            f"{where}: its projector is {kind!r}; transformers' LLaVA has one of two layers alone (mlp2x_gelu)"
        )
    if config.get("mm_use_im_start_end"):
        raise RecipeError(f"{where}: it puts pictures between tokens of their own, which transformers' LLaVA does not")
    if not isinstance(config.get("mm_vision_tower"), str):
        raise RecipeError(f"{where}: its config.json does not say which vision tower it has (mm_vision_tower)")


def common_name(name: str) -> str | None:
    """What Hugging Face calls a tensor of such a checkpoint; None for a constant that is stored along."""
    if name.endswith(_CONSTANT):
        return None
    if (found := _PROJECTED.match(name)) is not None and found["layer"] in _LINEAR:
        return f"{PROJECTOR}{_LINEAR[found['layer']]}.{found['end']}"
    if name.startswith(_TOWER):
        return TOWER + name.removeprefix(_TOWER).removeprefix(_INNER)
    if name.startswith("lm_head."):
        return name
    return LANGUAGE + name.removeprefix("model.") if name.startswith("model.") else name


def tower_name(name: str) -> str | None:
    """The same for a tensor of a CLIP model or of its vision tower alone; None for what is no part of the tower."""
    if not name.startswith(_INNER) or name.endswith(_CONSTANT):
        return None
    return TOWER + name.removeprefix(_INNER)
