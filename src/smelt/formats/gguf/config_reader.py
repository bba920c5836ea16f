"""The Hugging Face config of the model in a GGUF file, from the file's metadata and the shapes of its tensors.

In: the metadata. Out: config.json, or None for an architecture that is not in the table. What a file does not say (dropout,
activation) is left to the defaults of the model's class, but for what every model of the kind has and the class has not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from smelt.formats.gguf.joins import Shape

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
    "olmo2": ModelKind("olmo2", "Olmo2ForCausalLM", without=("head_dim",)),
    "nemotron": ModelKind("nemotron", "NemotronForCausalLM", {"attention.layer_norm_epsilon": "norm_eps"}),
}
"""By llama.cpp's architecture."""
_MIXTRAL = ModelKind(
    "mixtral",
    "MixtralForCausalLM",
    _RMS | {"expert_count": "num_local_experts", "expert_used_count": "num_experts_per_tok"},
)
_MISTRAL = ModelKind("mistral", "MistralForCausalLM")


def model_kind(metadata: Mapping[str, Any]) -> ModelKind | None:
    """Whose config it is; llama.cpp calls Mistral and Mixtral llama."""
    architecture = str(metadata.get("general.architecture", ""))
    if architecture == "llama" and metadata.get("llama.expert_count"):
        return _MIXTRAL
    if architecture == "llama" and metadata.get("llama.attention.sliding_window"):
        return _MISTRAL
    return MODELS.get(architecture)


def model_config(metadata: Mapping[str, Any], shapes: Mapping[str, Shape]) -> dict[str, Any] | None:
    """config.json; `shapes` are those of the stored tensors."""
    kind = model_kind(metadata)
    if kind is None:
        return None
    prefix = f"{metadata['general.architecture']}."
    own = {key.removeprefix(prefix): value for key, value in metadata.items() if key.startswith(prefix)}
    said = {name: own[key] for key, name in (_SIZES | dict(kind.fields)).items() if key in own}
    config: dict[str, Any] = {"architectures": [kind.architecture], "model_type": kind.model_type, **said}
    if "head_dim" not in config and "rope.dimension_count" in own:
        config["head_dim"] = own["rope.dimension_count"]
    if (embedding := shapes.get("token_embd.weight")) is not None:
        config["vocab_size"] = embedding[0]
    config["tie_word_embeddings"] = "output.weight" not in shapes
    config |= _rope(own)
    config |= _seen(kind, own, shapes)
    for role in ("bos", "eos", "padding"):
        number = metadata.get(f"tokenizer.ggml.{role}_token_id")
        if type(number) is int:
            config[f"{'pad' if role == 'padding' else role}_token_id"] = number
    return {key: value for key, value in {**config, **kind.constant}.items() if key not in kind.without}


def _rope(own: Mapping[str, Any]) -> dict[str, Any]:
    """The rotary embedding."""
    found: dict[str, Any] = {"rope_theta": own["rope.freq_base"]} if "rope.freq_base" in own else {}
    scaling = own.get("rope.scaling.type")
    if scaling in ("linear", "yarn") and "rope.scaling.factor" in own:
        found["rope_scaling"] = {"rope_type": scaling, "factor": own["rope.scaling.factor"]}
        if scaling == "yarn" and "rope.scaling.original_context_length" in own:
            found["rope_scaling"]["original_max_position_embeddings"] = own["rope.scaling.original_context_length"]
    return found


def _seen(kind: ModelKind, own: Mapping[str, Any], shapes: Mapping[str, Shape]) -> dict[str, Any]:
    """What the tensors tell: biases, and sizes of experts that older files do not say."""
    found: dict[str, Any] = {}
    biased = "blk.0.attn_q.bias" in shapes
    if kind.model_type == "llama":
        found |= {"attention_bias": True} if biased else {}
    if kind.model_type == "stablelm":
        found |= {"use_qkv_bias": biased, "use_parallel_residual": "blk.0.ffn_norm.weight" not in shapes}
        if "rope.dimension_count" in own and own.get("attention.head_count"):
            width = own["embedding_length"] // own["attention.head_count"]
            found["partial_rotary_factor"] = own["rope.dimension_count"] / width
    if kind.model_type == "nemotron" and "rope.dimension_count" in own and own.get("attention.head_count"):
        width = own.get("attention.key_length", own["embedding_length"] // own["attention.head_count"])
        found["partial_rotary_factor"] = own["rope.dimension_count"] / width
    if kind.model_type == "cohere":
        found["use_qk_norm"] = "blk.0.attn_q_norm.weight" in shapes
    stack = shapes.get("blk.0.ffn_gate_exps.weight", ())
    if len(stack) == 3 and "moe_intermediate_size" in kind.fields.values():
        found["moe_intermediate_size"] = stack[1]
    shared = shapes.get("blk.0.ffn_gate_shexp.weight", ())
    if len(shared) == 2 and kind.model_type == "qwen2_moe":
        found["shared_expert_intermediate_size"] = shared[0]
    return found
