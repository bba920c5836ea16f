"""A Llama of two layers and 100 words with random weights, its fine-tunes, and a chat task for it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import torch
import yaml

WORDS = ["<unk>", "<|im_start|>", "<|im_end|>", "user", "assistant", *(f"w{number}" for number in range(95))]
TEMPLATE = (
    "{% for message in messages %}<|im_start|> {{ message['role'] }} {{ message['content'] }} <|im_end|> {% endfor %}"
    "{% if add_generation_prompt %}<|im_start|> assistant {% endif %}"
)


def write_llama(folder: Path, seed: int = 0, *, change: float = 0.0, tied: bool = True, **config: Any) -> Path:
    """A model's folder. `change` moves the blocks of the model with this seed by random numbers of that size."""
    from transformers import LlamaConfig, LlamaForCausalLM

    words = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    words |= {"num_key_value_heads": 2, "vocab_size": len(WORDS), "max_position_embeddings": 64}
    torch.manual_seed(seed)
    model = LlamaForCausalLM(LlamaConfig(**{**words, **config}, tie_word_embeddings=tied, eos_token_id=2))
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            tensor.normal_(1.0 if "norm" in name else 0.0, 0.25)
        draw = torch.Generator().manual_seed(int(1000 * change))
        for tensor in model.model.layers.parameters():
            tensor += change * torch.randn(tensor.shape, generator=draw)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    return folder


def write_tokenizer(folder: Path, words: list[str] = WORDS) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    own = Tokenizer(models.WordLevel({word: number for number, word in enumerate(words)}, unk_token="<unk>"))
    own.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"unk_token": "<unk>", "eos_token": "<|im_end|>", "pad_token": "<|im_end|>"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=own, additional_special_tokens=["<|im_start|>"], chat_template=TEMPLATE, **special
    )
    tokenizer.save_pretrained(folder)


def pairs(count: int, offset: int = 0) -> list[tuple[str, str]]:
    """Prompts of one to five words, answered by one to three."""
    return [
        (
            " ".join(f"w{(offset + 7 * n + i) % 95}" for i in range(1 + n % 5)),
            " ".join(f"w{(offset + 3 * n + i) % 95}" for i in range(1 + n % 3)),
        )
        for n in range(count)
    ]


def write_chat_task(folder: Path, texts: list[tuple[str, str]], *, chat: bool = True, split: str = "train") -> Path:
    """A language task with one split."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(json.dumps({"prompt": prompt, "answer": answer}) + "\n" for prompt, answer in texts)
    (folder / f"{split}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))
    content = {
        "task": folder.name,
        "dataset_path": "json",
        "dataset_kwargs": {"data_files": {split: f"{split}.jsonl.gz"}},
        {"train": "training_split", "val": "validation_split", "test": "test_split"}[split]: split,
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{answer}}",
        "metric_list": [{"metric": "exact_match", "aggregation": "mean", "higher_is_better": True}],
        "metadata": {"version": 1, "title": folder.name, "domain": folder.name, "chat": chat},
    }
    (folder / "harness.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    (folder / "README.md").write_text("# A task\n\n## Licence\n\nCC0-1.0\n")
    return folder
