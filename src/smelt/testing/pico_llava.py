"""A LLaVA of a few thousand numbers, saved as real ones are: weights, tokenizer, processor, chat template.

A CLIP tower of two layers sees pictures of 8 x 8 in four places; a Llama of two layers reads bytes, and the letters
A to F after a space as tokens of their own. The same seed gives the same numbers; a fine-tune differs from its base
in projector and language model only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

__all__ = ["PICTURES", "SIDE", "TEMPLATE", "llava", "llava_config", "llava_tokenizer", "save_llava"]

SIDE = 8
"""Of the pictures."""
TEMPLATE = (
    "{% for message in messages %}{{ message['role'] | upper }}: "
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>\n{% else %}{{ part['text'] }}\n{% endif %}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %}ASSISTANT:{% endif %}"
)
_SPECIAL = ["<unk>", "<s>", "</s>", "<pad>", "<image>"]
PICTURES = {
    "image_processor_type": "CLIPImageProcessor",
    "do_resize": True,
    "size": {"shortest_edge": SIDE},
    "resample": 3,
    "do_center_crop": True,
    "crop_size": {"height": SIDE, "width": SIDE},
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_normalize": True,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.2, 0.25, 0.3],
    "do_convert_rgb": True,
}
_PROCESSOR = {
    "processor_class": "LlavaProcessor",
    "patch_size": 4,
    "vision_feature_select_strategy": "default",
    "num_additional_image_tokens": 1,
    "image_token": "<image>",
}


def llava_tokenizer(special: Sequence[str] = _SPECIAL) -> Any:
    """Bytes, the special tokens, and a letter after a space as one token."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    letters = [f"Ġ{letter}" for letter in "ABCDEF"]
    words = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet()), *letters]
    merges = [("Ġ", letter[1]) for letter in letters]
    raw = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=merges))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in special])
    raw.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    named: dict[str, Any] = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
    if "<image>" in special:
        named |= {"pad_token": "<pad>", "additional_special_tokens": ["<image>"]}
    kind: Any = PreTrainedTokenizerFast
    return kind(tokenizer_object=raw, chat_template=TEMPLATE, **named)


def llava_config(words: int, **other: Any) -> Any:
    """Four places of a picture, width 16."""
    from transformers import CLIPVisionConfig, LlamaConfig, LlavaConfig

    size: dict[str, Any] = {"num_hidden_layers": 2, "num_attention_heads": 2}
    vision: dict[str, Any] = {"hidden_size": 8, "intermediate_size": 16, "image_size": SIDE, "patch_size": 4, **size}
    text: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 24, "num_key_value_heads": 1, **size}
    ids = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 3}
    return LlavaConfig(
        vision_config=CLIPVisionConfig(projection_dim=3, **vision),
        text_config=LlamaConfig(**{**text, **ids, "max_position_embeddings": 512, "vocab_size": words, **other}),
        image_token_index=_SPECIAL.index("<image>"),
        image_seq_length=4,
    )


def llava(seed: int = 0, *, change: float = 0.0, tower: float = 0.0, **other: Any) -> Any:
    """A `LlavaForConditionalGeneration` of random numbers, large enough that answers differ.

    `change` moves projector and language model by random numbers of that size, `tower` the vision tower; which numbers
    these are depends on the sizes. `other` are words of the language model's config.
    """
    from transformers import LlavaForConditionalGeneration

    model: Any = LlavaForConditionalGeneration(llava_config(len(llava_tokenizer()), **other))
    model.eval()
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in sorted(model.named_parameters()):
            noise = torch.randn(tensor.shape, generator=draw)
            tensor.copy_(0.3 * noise + (1.0 if "norm" in name and name.endswith("weight") else 0.0))
        moved = torch.Generator().manual_seed(int(1000 * (change + tower)))
        for name, tensor in sorted(model.named_parameters()):
            amount = tower if ".vision_tower." in name else change
            tensor += amount * torch.randn(tensor.shape, generator=moved)
    return model.requires_grad_(False)


def save_llava(folder: Path, seed: int = 0, *, change: float = 0.0, tower: float = 0.0, **other: Any) -> Path:
    """The folder of such a model, as `save_pretrained` writes it."""
    llava(seed, change=change, tower=tower, **other).save_pretrained(folder)
    llava_tokenizer().save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PICTURES, indent=2))
    (folder / "processor_config.json").write_text(json.dumps(_PROCESSOR, indent=2))
    return folder
