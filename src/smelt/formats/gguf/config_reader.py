"""The Hugging Face config of the model in a GGUF file, from the file's metadata and the shapes of its tensors.

In: the metadata, and the table of rope factors where the file has one. Out: config.json, or None for an architecture
that is not in the table. What a file does not say (dropout, activation) is left to the defaults of the model's class,
but for what every model of the kind has and the class has not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from smelt.formats.gguf.fields import rope_factors
from smelt.formats.gguf.joins import Shape

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MODELS", "ModelKind", "model_config", "model_kind"]

_SIZES = {
    "context_length": "max_position_embeddings",
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
}
_RMS = {"attention.layer_norm_rms_epsilon": "rms_norm_eps"}
_EXPERTS = {
    "expert_count": "num_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
}
_GEMMA = _RMS | {
    "attention.sliding_window": "sliding_window",
    "attn_logit_softcapping": "attn_logit_softcapping",
    "final_logit_softcapping": "final_logit_softcapping",
}
_SMALL_NORM = {"attention.layer_norm_epsilon": "layer_norm_eps"}


@dataclass(frozen=True)
class ModelKind:
    """Hugging Face's side of an architecture."""

    model_type: str
    architecture: str
    fields: Mapping[str, str] = field(default_factory=lambda: _RMS)
    """Beside the sizes that all have: GGUF's field -> the config's key."""
    constant: Mapping[str, Any] = field(default_factory=dict)
    """What all models of the kind have, where the class has another default."""
    without: tuple[str, ...] = ()
    """Keys that the class does not have."""


MODELS = {
    "llama": ModelKind("llama", "LlamaForCausalLM"),
    "qwen2": ModelKind("qwen2", "Qwen2ForCausalLM", without=("head_dim",)),
    "qwen3": ModelKind("qwen3", "Qwen3ForCausalLM"),
    "qwen2moe": ModelKind(
        "qwen2_moe",
        "Qwen2MoeForCausalLM",
        _RMS | _EXPERTS | {"expert_shared_feed_forward_length": "shared_expert_intermediate_size"},
        without=("head_dim",),
    ),
    "qwen3moe": ModelKind("qwen3_moe", "Qwen3MoeForCausalLM", _RMS | _EXPERTS, {"norm_topk_prob": True}),
    "olmoe": ModelKind("olmoe", "OlmoeForCausalLM", _RMS | _EXPERTS, without=("head_dim", "moe_intermediate_size")),
    "phi3": ModelKind(
        "phi3", "Phi3ForCausalLM", _RMS | {"attention.sliding_window": "sliding_window"}, without=("head_dim",)
    ),
    "starcoder2": ModelKind(
        "starcoder2", "Starcoder2ForCausalLM", {"attention.layer_norm_epsilon": "norm_epsilon"}, without=("head_dim",)
    ),
    "gemma": ModelKind("gemma", "GemmaForCausalLM", _RMS),
    "gemma2": ModelKind("gemma2", "Gemma2ForCausalLM", _GEMMA),
    "gemma3": ModelKind("gemma3_text", "Gemma3ForCausalLM", _GEMMA),
    "command-r": ModelKind(
        "cohere", "CohereForCausalLM", _SMALL_NORM | {"logit_scale": "logit_scale"}, without=("head_dim",)
    ),
    "stablelm": ModelKind("stablelm", "StableLmForCausalLM", _SMALL_NORM, without=("head_dim",)),
    "gpt-oss": ModelKind(
        "gpt_oss",
        "GptOssForCausalLM",
        _RMS
        | {
            "expert_count": "num_local_experts",
            "expert_used_count": "num_experts_per_tok",
            "expert_feed_forward_length": "intermediate_size",
            "attention.sliding_window": "sliding_window",
        },
    ),
    "olmo2": ModelKind("olmo2", "Olmo2ForCausalLM", without=("head_dim",)),
    "nemotron": ModelKind("nemotron", "NemotronForCausalLM", {"attention.layer_norm_epsilon": "norm_eps"}),
}
"""By llama.cpp's architecture."""
_MIXTRAL = ModelKind(
    "mixtral",
    "MixtralForCausalLM",
    _RMS | {"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"},
)
_MISTRAL = ModelKind("mistral", "MistralForCausalLM", _RMS | {"attention.sliding_window": "sliding_window"})
_DEEPSEEK = _RMS | {
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
    "leading_dense_block_count": "first_k_dense_replace",
    "expert_count": "n_routed_experts",
    "expert_used_count": "num_experts_per_tok",
    "expert_shared_count": "n_shared_experts",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_weights_scale": "routed_scaling_factor",
    "expert_weights_norm": "norm_topk_prob",
    "expert_group_count": "n_group",
    "expert_group_used_count": "topk_group",
    "rope.dimension_count": "qk_rope_head_dim",
}
_DEEPSEEK_2 = ModelKind("deepseek_v2", "DeepseekV2ForCausalLM", _DEEPSEEK, without=("head_dim",))
_DEEPSEEK_3 = ModelKind("deepseek_v3", "DeepseekV3ForCausalLM", _DEEPSEEK, without=("head_dim",))
_LLAMA_3 = {"rope_type": "llama3", "low_freq_factor": 1.0, "high_freq_factor": 4.0}
_COUNTS = ("_count", "_count_kv", "_length", "_length_mla", "_rank")
_CONTEXTS = (8192, 4096, 2048, 16384, 32768, 65536, 131072)
"""That a Llama was trained on before its rotary embedding was stretched; 8192 of all that Meta made."""


def model_kind(metadata: Mapping[str, Any], shapes: Mapping[str, Shape]) -> ModelKind | None:
    """Whose config it is: llama.cpp calls Mistral and Mixtral llama, and DeepSeek's later versions its second."""
    architecture = str(metadata.get("general.architecture", ""))
    if architecture == "deepseek2":
        return _DEEPSEEK_3 if any(name.endswith("exp_probs_b.bias") for name in shapes) else _DEEPSEEK_2
    if architecture == "llama" and metadata.get("llama.expert_count"):
        return _MIXTRAL
    if architecture == "llama" and metadata.get("llama.attention.sliding_window"):
        return _MISTRAL
    return MODELS.get(architecture)


def model_config(
    metadata: Mapping[str, Any], shapes: Mapping[str, Shape], factors: NDArray[np.float32] | None = None
) -> dict[str, Any] | None:
    """config.json; `shapes` are those of the stored tensors, `factors` divide the rotary frequencies."""
    kind = model_kind(metadata, shapes)
    if kind is None:
        return None
    prefix = f"{metadata['general.architecture']}."
    own = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    own = {key: _shortened(value) for key, value in own.items() if _is_sound(key, value)}
    said = {name: own[key] for key, name in (_SIZES | dict(kind.fields)).items() if key in own}
    config: dict[str, Any] = {"architectures": [kind.architecture], "model_type": kind.model_type, **said}
    if "head_dim" not in config and "rope.dimension_count" in own and kind in (MODELS["llama"], _MISTRAL, _MIXTRAL):
        config["head_dim"] = own["rope.dimension_count"]
    if len(embedding := shapes.get("token_embd.weight", ())) == 2:
        config["vocab_size"] = embedding[0]
    config["tie_word_embeddings"] = "output.weight" not in shapes
    config |= _rope(kind, own)
    config |= _seen(kind, own, shapes)
    if factors is not None:
        config |= _llama_3(config, factors)
    for role in ("bos", "eos", "padding"):
        number = metadata.get(f"tokenizer.ggml.{role}_token_id")
        if type(number) is int:
            config[f"{'pad' if role == 'padding' else role}_token_id"] = number
    return {key: value for key, value in {**config, **kind.constant}.items() if key not in kind.without}


def _is_sound(key: str, value: object) -> bool:
    """Whether a field may be what it says: counts are whole numbers, all others plain and finite."""
    if key.endswith(_COUNTS):
        return type(value) is int and value >= 0
    return isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def _shortened(value: Any) -> Any:
    """A number that was float32 as people write it: 1e-05, and not 9.999999747378752e-06, which no other config has."""
    import numpy as np

    return float(str(np.float32(value))) if isinstance(value, float) else value


def _rope(kind: ModelKind, own: Mapping[str, Any]) -> dict[str, Any]:
    """The rotary embedding."""
    base = own.get("rope.freq_base")
    found: dict[str, Any] = {"rope_theta": base} if isinstance(base, float) and base > 0 else {}
    scaling = own.get("rope.scaling.type")
    if scaling in ("linear", "yarn") and isinstance(own.get("rope.scaling.factor"), float):
        found["rope_scaling"] = {"rope_type": scaling, "factor": own["rope.scaling.factor"]}
        if scaling == "yarn" and "rope.scaling.original_context_length" in own:
            found["rope_scaling"]["original_max_position_embeddings"] = own["rope.scaling.original_context_length"]
        if kind.model_type == "gpt_oss":
            found["rope_scaling"] |= {"beta_fast": 32.0, "beta_slow": 1.0, "truncate": False}
        if isinstance(own.get("rope.scaling.yarn_log_multiplier"), float):  # of DeepSeek, whose two factors are equal
            scale = round(10 * own["rope.scaling.yarn_log_multiplier"], 6)
            found["rope_scaling"] |= {"mscale": scale, "mscale_all_dim": scale}
    return found


def _llama_3(config: Mapping[str, Any], factors: NDArray[np.float32]) -> dict[str, Any]:
    """The scaling of Llama 3 that has these factors; nothing where it is another one."""
    import numpy as np

    if not {"rope_theta", "hidden_size", "num_attention_heads"} <= config.keys():
        return {}
    for context in _CONTEXTS:
        scaling = {**_LLAMA_3, "factor": float(factors.max()), "original_max_position_embeddings": context}
        made = rope_factors({**config, "rope_scaling": scaling})
        if made is not None and made.shape == factors.shape and np.allclose(made, factors, rtol=1e-4):
            return {"rope_scaling": scaling}
    return {}


def _seen(kind: ModelKind, own: Mapping[str, Any], shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """What the tensors tell: biases, and sizes of experts that older files do not say."""
    found: dict[str, Any] = {}
    biased = "blk.0.attn_q.bias" in shapes
    if kind.model_type == "llama":
        found |= {"attention_bias": True} if biased else {}
    if kind.model_type == "stablelm":
        found |= {"use_qkv_bias": biased, "use_parallel_residual": "blk.0.ffn_norm.weight" not in shapes}
    if kind.model_type in ("stablelm", "nemotron") and "rope.dimension_count" in own and (width := _head_width(own)):
        found["partial_rotary_factor"] = own["rope.dimension_count"] / width
    if kind.model_type == "cohere":
        found["use_qk_norm"] = "blk.0.attn_q_norm.weight" in shapes
    stack = shapes.get("blk.0.ffn_gate_exps.weight", ())
    if len(stack) == 3 and "moe_intermediate_size" in kind.fields.values():
        found["moe_intermediate_size"] = stack[1]
    if kind.model_type.startswith("deepseek") and own.get("attention.head_count"):
        rotary, heads = own.get("rope.dimension_count", 0), own["attention.head_count"]
        keys = own.get("attention.key_length_mla", own.get("attention.key_length", rotary))
        found |= {"num_key_value_heads": heads, "qk_nope_head_dim": keys - rotary}
        found["v_head_dim"] = own.get("attention.value_length_mla", own.get("attention.value_length"))
        found |= {} if "attention.q_lora_rank" in own else {"q_lora_rank": None}
    shared = shapes.get("blk.0.ffn_gate_shexp.weight", ())
    if len(shared) == 2 and kind.model_type == "qwen2_moe":
        found["shared_expert_intermediate_size"] = shared[0]
    return found


def _head_width(own: Mapping[str, Any]) -> int:
    """Numbers of a head; 0 where nothing tells."""
    heads = own.get("attention.head_count")
    return int(own.get("attention.key_length") or (own.get("embedding_length", 0) // heads if heads else 0))
