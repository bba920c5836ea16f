"""A model's config as the fields of a GGUF file: sizes, heads, norms and rotary embedding, as llama.cpp reads them.

In: config.json. Out: the architecture's name there, fields by name, and the table of rope factors where one is needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["ARCHITECTURES", "architecture_of", "config_fields", "rope_factors"]

ARCHITECTURES = {"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3"}
"""Hugging Face's model_type -> llama.cpp's architecture, where every tensor has its place."""
_SIZES = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "vocab_size": "vocab_size",
}


def architecture_of(config: Mapping[str, Any], label: str) -> str:
    kind = config.get("model_type")
    if kind not in ARCHITECTURES:
        raise RecipeError(
            f"{label} is a model of type {kind!r}, which is not written to GGUF here; there is: "
            f"{', '.join(ARCHITECTURES)}. For others use llama.cpp's convert_hf_to_gguf.py"
        )
    return ARCHITECTURES[kind]


def config_fields(config: Mapping[str, Any], label: str) -> dict[str, Any]:
    """Fields by their full names."""
    lacking = [name for name in _SIZES.values() if not isinstance(config.get(name), int)]
    if lacking:
        raise RecipeError(f"{label}: config.json does not say {lacking[0]}")
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        raise RecipeError(
            f"{label}: its attention has a sliding window ({config['sliding_window']}), which these architectures of "
            "llama.cpp do not have; the model would read long texts otherwise than it was trained"
        )
    heads = int(config["num_attention_heads"])
    width = int(config.get("head_dim") or config["hidden_size"] // heads)
    fields: dict[str, Any] = {name: int(config[own]) for name, own in _SIZES.items()}
    fields |= {
        "attention.head_count_kv": int(config.get("num_key_value_heads") or heads),
        "attention.layer_norm_rms_epsilon": float(config.get("rms_norm_eps", 1e-6)),
        "attention.key_length": width,
        "attention.value_length": width,
        "rope.dimension_count": width,
        "rope.freq_base": float(_rope(config).get("rope_theta", 10000.0)),
    }
    kind = _rope_type(config)
    if kind == "linear":
        fields |= {"rope.scaling.type": "linear", "rope.scaling.factor": float(_rope(config)["factor"])}
    elif kind not in ("default", "llama3"):
        raise RecipeError(
            f"{label}: rope scaling of type {kind!r} is not written to GGUF here (default, linear, llama3)"
        )
    architecture = architecture_of(config, label)
    return {f"{architecture}.{name}": value for name, value in fields.items()}


def rope_factors(config: Mapping[str, Any]) -> npt.NDArray[np.float32] | None:
    """Llama 3's table: by how much each rotary frequency is divided. None for models that have no such scaling.

    Frequencies whose wave is short against the original context stay, long ones are divided by `factor`, and between
    the two bounds the divisor runs smoothly from one to the other.
    """
    if _rope_type(config) != "llama3":
        return None
    import numpy as np

    rope = _rope(config)
    base, factor = float(rope["rope_theta"]), float(rope["factor"])
    low, high = float(rope["low_freq_factor"]), float(rope["high_freq_factor"])
    context = float(rope["original_max_position_embeddings"])
    width = int(config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
    divisors = []
    for place in range(0, width, 2):
        wave = 2 * math.pi * base ** (place / width)
        if wave < context / high:
            divisors.append(1.0)
        elif wave > context / low:
            divisors.append(factor)
        else:
            smooth = (context / wave - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    return np.array(divisors, dtype=np.float32)


def _rope(config: Mapping[str, Any]) -> dict[str, Any]:
    """The rotary settings, which newer configs keep in one table and older ones in two places."""
    scaling = config.get("rope_parameters") or config.get("rope_scaling") or {}
    theta = {"rope_theta": config["rope_theta"]} if config.get("rope_theta") else {}
    return {**theta, **scaling}


def _rope_type(config: Mapping[str, Any]) -> str:
    rope = _rope(config)
    return str(rope.get("rope_type") or rope.get("type") or "default")
