"""Encoder-decoders and state-space models of a few thousand numbers, in the classes of transformers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

WORDS = 64
_BART = {
    "vocab_size": WORDS, "d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2,
    "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "pad_token_id": 1, "bos_token_id": 0,
    "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip
_T5 = {
    "vocab_size": WORDS, "d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "pad_token_id": 0,
    "eos_token_id": 2, "decoder_start_token_id": 0, "initializer_factor": 3.0,
}  # fmt: skip
_MAMBA = {
    "vocab_size": WORDS, "hidden_size": 16, "state_size": 4, "num_hidden_layers": 2, "pad_token_id": 0,
    "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "t5": _T5,
    "t5-v1_1": {**_T5, "model_type": "t5", "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
    "bart": {**_BART, "max_position_embeddings": 64, "forced_eos_token_id": None},
    "whisper": {**_BART, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32},
    "mamba": {**_MAMBA, "time_step_rank": 2},
    "falcon_mamba": {**_MAMBA, "time_step_rank": 2},
    "mamba2": {**_MAMBA, "num_heads": 4, "head_dim": 8, "n_groups": 1, "chunk_size": 8},
}
"""By kind: the words of a small model's config."""
_CLASSES = {"t5": "AutoModelForSeq2SeqLM", "bart": "AutoModelForSeq2SeqLM", "whisper": "AutoModelForSpeechSeq2Seq"}


def auto(kind: str) -> Any:
    """The class of transformers that loads a kind."""
    import transformers

    return getattr(transformers, _CLASSES.get(kind.split("-")[0], "AutoModelForCausalLM"))


def sequence_model(kind: str, seed: int = 0) -> Any:
    """A model with random numbers, none of them all ones or zeros."""
    import transformers

    name = str(CONFIGS[kind].get("model_type", kind))
    words = {key: value for key, value in CONFIGS[kind].items() if key != "model_type"}
    torch.manual_seed(seed)
    model = auto(kind).from_config(transformers.CONFIG_MAPPING[name](**words)).eval()
    if kind == "t5-v1_1":  # transformers 5 ties the head of every T5 that it builds
        model.lm_head.weight = torch.nn.Parameter(torch.randn(WORDS, 16) / 4)
    for name, tensor in model.named_parameters():
        if tensor.dim() == 1 and "A_log" not in name:
            tensor.data += torch.randn_like(tensor) / 10
    return model


def write_sequence_model(folder: Path, kind: str, seed: int = 0) -> Any:
    """Save one with a tokenizer; it comes back as it is in memory."""
    model = sequence_model(kind, seed)
    if kind == "t5-v1_1":
        folder.mkdir(parents=True)
        state = {name: tensor.contiguous() for name, tensor in model.named_parameters()}
        save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
        config = {**model.config.to_dict(), "tie_word_embeddings": False}
        config.pop("scale_decoder_outputs", None)
        (folder / "config.json").write_text(json.dumps(config))
    else:
        model.save_pretrained(folder)
    write_tokenizer(folder, ends=kind in ("t5", "t5-v1_1"))
    return model


def write_tokenizer(folder: Path, *, ends: bool = False) -> None:
    """Words w0 to w60 after three special ones; `ends` puts the end behind every text, as T5's does."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    words = ["<pad>", "<s>", "</s>", *(f"w{number}" for number in range(WORDS - 3))]
    made = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="w0"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    if ends:
        made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 2)])
    special = {"unk_token": "w0", "pad_token": "<pad>", "eos_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=made, **special).save_pretrained(folder)
