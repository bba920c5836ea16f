"""Sound models that several formats are made of: plain ones, and Llamas with all that stands beside weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from checkpoints import random_state, write_model

__all__ = ["LLAMA", "LLAMA_SHAPES", "SETTINGS", "SHAPES", "WORDS", "make_llamas", "make_plain", "pool", "tokenizer"]

SHAPES = {"embed.weight": (8, 4), "layers.0.mlp.weight": (4, 4), "layers.0.mlp.bias": (4,), "head.weight": (8, 4)}


def pool(place: Path, *names: str) -> dict[str, str]:
    """References by name."""
    return {name: str(place / name) for name in names or ("cars", "birds")}


def make_plain(place: Path) -> None:
    """A base and two fine-tunes of four tensors each."""
    for seed, name in enumerate(("base", "cars", "birds")):
        write_model(place / name, random_state(seed, SHAPES))


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4,
    "intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 2,
    "vocab_size": 8,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "rope_scaling": {"rope_type": "linear", "factor": 2.0},
    "tie_word_embeddings": False,
    "bos_token_id": 1,
    "eos_token_id": [2, 3],
    "pad_token_id": None,
    "torch_dtype": "float32",
    "id2label": {"0": "LABEL_0"},
    "transformers_version": "4.56.0",
}
LLAMA_SHAPES = {
    "model.embed_tokens.weight": (8, 4),
    "model.layers.0.input_layernorm.weight": (4,),
    "model.layers.0.self_attn.q_proj.weight": (4, 4),
    "model.layers.0.self_attn.k_proj.weight": (2, 4),
    "model.layers.0.mlp.up_proj.weight": (8, 4),
    "model.layers.0.mlp.down_proj.weight": (4, 8),
    "model.norm.weight": (4,),
    "lm_head.weight": (8, 4),
}
WORDS = ["<unk>", "<s>", "</s>", "a", "b", "ab"]
SETTINGS = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "unk_token": "<unk>",
    "bos_token": "<s>",
    "eos_token": {"content": "</s>", "special": True},
    "model_max_length": 64,
    "added_tokens_decoder": {"0": {"content": "<unk>", "special": True}},
    "chat_template": [{"name": "default", "template": "{{ messages }}"}],
}


def tokenizer(words: list[str]) -> dict[str, Any]:
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    blank = dict.fromkeys(("truncation", "padding", "normalizer", "decoder"))
    added = [{"id": number, "content": words[number], **flags} for number in range(3)]
    process = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}},
    }
    model = {"type": "BPE", "unk_token": "<unk>", "vocab": {word: n for n, word in enumerate(words)}, "merges": ["a b"]}
    return {"version": "1.0", **blank, "pre_tokenizer": {"type": "Whitespace"}, "post_processor": process} | {
        "added_tokens": added,
        "model": model,
    }


def make_llamas(place: Path, apart: bool = False) -> None:
    """A base and two fine-tunes with everything that stands beside weights; `apart`: birds has a word of its own."""
    for seed, name in enumerate(("base", "cars", "birds")):
        folder = write_model(place / name, random_state(seed, LLAMA_SHAPES), LLAMA)
        words = [*WORDS, *("cd" if name != "birds" or not apart else "de")]
        special = {"bos_token": "<s>", "eos_token": "</s>", "additional_special_tokens": ["<unk>"]}
        beside = {
            "generation_config.json": {"bos_token_id": 1, "eos_token_id": [2], "do_sample": False},
            "tokenizer.json": tokenizer(words),
            "tokenizer_config.json": SETTINGS,
            "special_tokens_map.json": special,
            "added_tokens.json": {"d": words.index("d")},
        }
        for file, content in beside.items():
            (folder / file).write_text(json.dumps(content))
        (folder / "chat_template.jinja").write_text("{{ messages }}\n")
