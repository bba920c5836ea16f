"""The config of the language model inside a model that sees and reads, as a model of texts alone has it.

In: the config.json of the whole. Out: one that AutoModelForCausalLM builds the same language model from. Classes that
exist within the whole only (Qwen2-VL's) are the text classes that they were made from: rotary positions of three axes
are, in a text, the ordinary ones.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from smelt.errors import RecipeError

__all__ = ["text_config"]

_AS_TEXT = {
    "qwen2_vl": "qwen2",
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
}
"""The type of a language model within the whole -> its type alone, where they are two."""
_USUAL = {
    "aya_vision": "cohere2",
    "gemma3": "gemma3_text",
    "idefics2": "mistral",
    "idefics3": "llama",
    "internvl": "qwen2",
    "llava": "llama",
    "llava_next": "llama",
    "llava_onevision": "qwen2",
    "mistral3": "mistral",
    "paligemma": "gemma",
    "qwen3_vl_moe": "qwen3_vl_moe_text",
    "smolvlm": "llama",
    "vipllava": "llama",
}
"""The type of the language model of a class, where its config does not say it."""
_UNSAID = {"qwen2": {"rms_norm_eps": 1e-5, "rope_theta": 1000000.0}}
"""What the class within the whole takes where a config is silent, and the text class takes otherwise."""
_CLASSES = {
    "cohere2": "Cohere2ForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3_text": "Gemma3ForCausalLM",
    "llama": "LlamaForCausalLM",
    "mistral": "MistralForCausalLM",
    "mllama": "MllamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
}
_KEPT_WHOLE = ("mllama",)
"""Classes whose language model alone is built from the config of the whole."""
_ATTENDS = {"paligemma": "use_bidirectional_attention"}
"""Words of a language model that are about the pictures and questions before its texts."""
_ENDS = ("bos_token_id", "eos_token_id", "pad_token_id")
_OF_THE_WHOLE = ("architectures", "vision_config", "auto_map", "quantization_config")
_ROPE = ("rope_parameters", "rope_scaling")


def text_config(config: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The config of the language model alone; `where` is the model, for messages."""
    whole, inner = str(config.get("model_type")), config.get("text_config")
    if whole in _KEPT_WHOLE:
        return {**copy.deepcopy(dict(config)), "architectures": [_CLASSES[whole]]}
    if isinstance(inner, Mapping):
        own = copy.deepcopy(dict(inner))
        for word in (*_ENDS, "dtype", "torch_dtype", "tie_word_embeddings"):
            if word in config and own.get(word) is None:
                own[word] = config[word]
        if "tie_word_embeddings" in config:  # what the whole says counts
            own["tie_word_embeddings"] = config["tie_word_embeddings"]
    elif whole in _AS_TEXT:  # before transformers 5 their words stood beside those of the whole
        own = copy.deepcopy(dict(config))
    else:
        raise RecipeError(f"{where}: its config.json has no text_config, so its language model cannot be built alone")
    kind = str(own.get("model_type") or _USUAL.get(whole, ""))
    inside, kind = kind, _AS_TEXT.get(kind, kind)
    if not kind:
        raise RecipeError(f"{where}: the text_config of its config.json has no model_type")
    own.pop(_ATTENDS.get(whole, ""), None)
    for word in (*_OF_THE_WHOLE, *(word for word in own if word.endswith("_token_id") and word not in _ENDS)):
        own.pop(word, None)
    if inside in _AS_TEXT:
        for word in _ROPE:
            _without_axes(own, word)
        said = own.get("rope_parameters") or {}
        for word, value in _UNSAID.get(kind, {}).items():
            if word not in said:
                own.setdefault(word, value)
    own["model_type"] = kind
    return own | ({"architectures": [_CLASSES[kind]]} if kind in _CLASSES else {})


def _without_axes(config: dict[str, Any], word: str) -> None:
    """Leave out how positions are shared among time, height and width."""
    said = config.get(word)
    if not isinstance(said, Mapping) or "mrope_section" not in said:
        return
    kept = {key: value for key, value in said.items() if not key.startswith("mrope_")}
    for key in ("type", "rope_type"):
        if kept.get(key) == "mrope":
            kept[key] = "default"
    if set(kept) <= {"type", "rope_type"} and all(value == "default" for value in kept.values()):
        config.pop(word)
    else:
        config[word] = kept
