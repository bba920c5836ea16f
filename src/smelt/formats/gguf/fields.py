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

ARCHITECTURES = {
    "llama": "llama", "mistral": "llama", "mixtral": "llama", "qwen2": "qwen2", "qwen2_moe": "qwen2moe",
    "qwen3": "qwen3", "qwen3_moe": "qwen3moe", "olmo2": "olmo2", "olmoe": "olmoe",
}  # fmt: skip
"""Hugging Face's model_type -> llama.cpp's architecture, where every tensor has its place."""
_EXPERT_COUNTS = ("num_experts", "num_local_experts")
_EXPERT_SIZES = {
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
}
_NORMALISED = {"mixtral": True, "qwen2_moe": False, "qwen3_moe": True, "olmoe": False}
"""Whether llama.cpp scales the weights of the chosen experts to a sum of 1."""
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
    if config.get("model_type") in _NORMALISED:
        fields |= _expert_fields(config, label)
    architecture = architecture_of(config, label)
    return {f"{architecture}.{name}": value for name, value in fields.items()}


def _expert_fields(config: Mapping[str, Any], label: str) -> dict[str, Any]:
    """How many experts there are and how large; what llama.cpp computes otherwise is refused."""
    kind = str(config["model_type"])
    normalised = kind == "mixtral" or bool(config.get("norm_topk_prob", False))
    odd = {
        f"norm_topk_prob {normalised}": normalised != _NORMALISED[kind],
        "layers without experts": bool(config.get("mlp_only_layers")) or config.get("decoder_sparse_step", 1) != 1,
        "clipped queries and keys": config.get("clip_qkv") is not None,
    }
    if found := next((what for what, is_so in odd.items() if is_so), None):
        raise RecipeError(
            f"{label}: a {kind} with {found}, which llama.cpp does not compute; it is not written to GGUF"
        )
    count = next((config[key] for key in _EXPERT_COUNTS if isinstance(config.get(key), int)), None)
    if count is None or not isinstance(config.get("num_experts_per_tok"), int):
        raise RecipeError(f"{label}: config.json does not say how many experts there are, or how many a token uses")
    sizes = {name: int(config[key]) for name, key in _EXPERT_SIZES.items() if isinstance(config.get(key), int)}
    return {"expert_count": count, **sizes}


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
