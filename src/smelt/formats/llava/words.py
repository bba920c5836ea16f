"""What lies beside the weights of a LLaVA of the own layout, in Hugging Face's words.

The same as transformers' conversion of LLaVA 1.5: the tokens `<image>` and `<pad>` behind the vocabulary, and rows for
them, as many as make the vocabulary a multiple of 64 (32,000 become 32,064, as in llava-hf/llava-1.5-7b-hf). The chat
template is `vicuna_v1`, with its first sentences, by which LLaVA itself asks. Where the config says that pictures are
padded to a square (`image_aspect_ratio: pad`), the processor does that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "IMAGE",
    "PAD",
    "TEMPLATE",
    "added_tokens",
    "config_words",
    "picture_words",
    "processor_words",
    "vocabulary",
    "with_added_tokens",
]

IMAGE, PAD = "<image>", "<pad>"
_MULTIPLE = 64
_SYSTEM = (
    "A chat between a curious user and an artificial intelligence assistant. "
    "The assistant gives helpful, detailed, and polite answers to the user's questions. "
)
TEMPLATE = (
    f"{_SYSTEM}"
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}USER: {% else %}ASSISTANT: {% endif %}"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] if part['type'] == 'image' %}<image>\n{% endfor %}"
    "{% for part in message['content'] if part['type'] == 'text' %}{{ part['text'] }}{% endfor %}"
    "{% endif %}"
    "{% if message['role'] == 'user' %} {% else %}</s>{% endif %}"
    "{% endfor %}"
    "{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
_LLAMA = frozenset(
    "attention_bias attention_dropout bos_token_id eos_token_id head_dim hidden_act hidden_size initializer_range"
    " intermediate_size max_position_embeddings mlp_bias num_attention_heads num_hidden_layers num_key_value_heads"
    " pretraining_tp rms_norm_eps rope_scaling rope_theta rope_parameters tie_word_embeddings use_cache".split()
)
"""Words of the config that are those of the language model."""


def vocabulary(words: int) -> int:
    """The rows of the embedding, with the two added tokens."""
    return -(-(words + 2) // _MULTIPLE) * _MULTIPLE


def config_words(config: Mapping[str, Any], tower: Mapping[str, Any]) -> dict[str, Any]:
    """The config.json of a `LlavaForConditionalGeneration`; `tower` is that of the vision tower, or of its CLIP."""
    words = int(config["vocab_size"])
    vision = dict(tower.get("vision_config") or tower) | {"model_type": "clip_vision_model"}
    patches = int(vision.get("image_size", 224)) // int(vision.get("patch_size", 32))
    dtype = config.get("dtype") or config.get("torch_dtype")
    return {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "image_token_index": words,
        "image_seq_length": patches**2,
        "projector_hidden_act": "gelu",
        "multimodal_projector_bias": True,
        "vision_feature_layer": int(config.get("mm_vision_select_layer", -2)),
        "vision_feature_select_strategy": "full"
        if config.get("mm_vision_select_feature") == "cls_patch"
        else "default",
        "tie_word_embeddings": bool(config.get("tie_word_embeddings", False)),
        **({"dtype": dtype} if dtype else {}),
        "text_config": {
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            **{word: value for word, value in sorted(config.items()) if word in _LLAMA},
            "pad_token_id": words + 1,
            "vocab_size": vocabulary(words),
        },
        "vision_config": {
            word: value for word, value in vision.items() if word not in ("architectures", "torch_dtype")
        },
    }


def picture_words(preprocessor: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """The preprocessor_config.json, from that of the tower's CLIP."""
    if config.get("image_aspect_ratio") != "pad":
        return dict(preprocessor)
    return {**preprocessor, "image_processor_type": "LlavaImageProcessor", "do_pad": True}


def processor_words(config: Mapping[str, Any]) -> dict[str, Any]:
    """The processor_config.json, from a translated config."""
    return {
        "processor_class": "LlavaProcessor",
        "patch_size": config["vision_config"].get("patch_size", 32),
        "vision_feature_select_strategy": config["vision_feature_select_strategy"],
        "num_additional_image_tokens": 1,
        "image_token": IMAGE,
    }


def added_tokens(words: int) -> dict[str, dict[str, Any]]:
    """The two tokens, as a tokenizer_config.json has them."""
    plain = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": True}
    return {str(words + place): {"content": text, **plain} for place, text in enumerate((IMAGE, PAD))}


def with_added_tokens(tokenizer: Mapping[str, Any], words: int) -> dict[str, Any]:
    """A tokenizer.json with the two tokens."""
    known = [one for one in tokenizer.get("added_tokens", []) if one["content"] not in (IMAGE, PAD)]
    return {
        **tokenizer,
        "added_tokens": [*known, *({"id": int(number), **one} for number, one in added_tokens(words).items())],
    }
