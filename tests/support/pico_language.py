"""Language models of a few thousand numbers whose answers can be checked by hand, and tasks for them.

The vocabulary is sixteen words, each with a direction of its own. The base repeats the last word of its prompt. A
specialist's only layer adds `3 * scale` of another word to that: `up` follows a by b and c by d, `down` follows e by f.
So a merge at scale s answers as a specialist does from s = 1/3 on, and repeats the word below that.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import yaml

__all__ = ["FOLLOWS", "WORDS", "write_language_model", "write_language_task"]

WORDS = ["<unk>", "<s>", "</s>", *"abcdefghijklm"]
FOLLOWS = {"base": {}, "up": {"a": "b", "c": "d"}, "down": {"e": "f"}, "both": {"a": "b", "c": "d", "e": "f"}}
"""By model, the words that it answers with something else than themselves."""

_STRENGTH, _GATE = 3.0, 32.0


def write_language_model(folder: Path, follows: Mapping[str, str]) -> Path:
    """A Llama of one layer with its tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    size = len(WORDS)
    config = LlamaConfig(
        vocab_size=size,
        hidden_size=size,
        intermediate_size=size,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        max_position_embeddings=64,
        tie_word_embeddings=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = LlamaForCausalLM(config)
    layer = model.model.layers[0]
    norm = size**0.5  # what the norm makes of a single direction
    with torch.no_grad():
        for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
            projection.weight.zero_()
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.gate_proj.weight.fill_(_GATE / norm)
        layer.mlp.up_proj.weight.copy_(torch.eye(size))
        layer.mlp.down_proj.weight.zero_()
        for word, answer in follows.items():
            layer.mlp.down_proj.weight[WORDS.index(answer), WORDS.index(word)] = _STRENGTH / (_GATE * norm)
        model.model.embed_tokens.weight.copy_(torch.eye(size))
        model.lm_head.weight.copy_(torch.eye(size))
    model.save_pretrained(folder)
    _write_tokenizer(folder)
    return folder


def _write_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
    PreTrainedTokenizerFast(tokenizer_object=words, **special).save_pretrained(folder)


def write_language_task(
    folder: Path, answers: Sequence[tuple[str, str]], *, splits: Sequence[str] = ("test",), **words: Any
) -> Path:
    """A task whose prompts are a word: the right answer against the word itself, or against what follows it."""
    folder.mkdir(parents=True, exist_ok=True)
    records = [
        {"prompt": prompt, "choices": [answer, other], "label": 0, "answer": answer}
        for prompt, answer in answers
        for other in [prompt if prompt != answer else FOLLOWS["both"].get(prompt, "m")]
    ]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    names = {"train": "training_split", "val": "validation_split", "test": "test_split"}
    for split in splits:
        (folder / f"{split}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    content: dict[str, Any] = {
        "task": folder.name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {split: f"{split}.jsonl.gz" for split in splits}},
        **{names[split]: split for split in splits},
        "output_type": "multiple_choice",
        "doc_to_text": "{{prompt}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{label}}",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": 1, "title": folder.name, "domain": folder.name, "chat": False},
    }
    (folder / "harness.yaml").write_text(yaml.safe_dump({**content, **words}, sort_keys=False))
    (folder / "README.md").write_text("# A task\n\n## Licence\n\nCC0-1.0\n")
    return folder
