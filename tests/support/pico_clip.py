"""CLIP models of a few thousand numbers and tasks of a few dozen pictures, written to disk as real ones are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml

from smelt.tasks.pictures.mosaic import write_mosaic
from smelt.testing.pico_conv import conv_clip

SIDE = 8
"""Of the pictures."""
COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)}
TEMPLATES = ("a photo of a {}", "some {} thing")
PROCESSOR = {
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


def tokenizer(more: Iterable[str] = ()) -> Any:
    """A BPE tokenizer in which every word of the prompts is one token, and some more."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    known = {*" ".join(TEMPLATES).replace("{}", " ").split(), *COLOURS, *more}
    words = sorted(known, key=lambda word: (-len(word), word))
    vocabulary, merges = ["<unk>", "<pad>", "<s>", "</s>"], []
    for word in words:
        left, *rest = [*word[:-1], word[-1] + "</w>"]
        vocabulary += [left, *rest]
        for letter in rest:
            merges.append((left, letter))
            left += letter
            vocabulary.append(left)
    numbers = {token: number for number, token in enumerate(dict.fromkeys(vocabulary))}
    raw = Tokenizer(
        models.BPE(vocab=numbers, merges=list(dict.fromkeys(merges)), unk_token="<unk>", end_of_word_suffix="</w>")
    )
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", raw.token_to_id("<s>")), ("</s>", raw.token_to_id("</s>"))]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, unk_token="<unk>", pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def clip_config(words: Any) -> Any:
    from transformers import CLIPConfig

    ids = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id}
    size = {"hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    return CLIPConfig(
        vision_config={**size, "image_size": SIDE, "patch_size": 4},
        text_config={**size, "vocab_size": len(words), "max_position_embeddings": 12, **ids},
        projection_dim=3,
    )


def random_clip(seed: int = 0) -> Any:
    """A CLIPModel of random numbers, large enough that classes differ."""
    from transformers import CLIPModel

    torch.manual_seed(seed)
    model = CLIPModel(clip_config(tokenizer())).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.ndim > 1:
                tensor.normal_(0, 0.3)
            elif name.endswith("bias"):
                tensor.normal_(0, 0.1)
    return model


def random_conv_clip(seed: int = 0) -> Any:
    """A VisionTextDualEncoderModel with a convolutional picture tower, for the same pictures and words."""
    words = tokenizer()
    ids = {"bos_token_id": words.bos_token_id, "eos_token_id": words.eos_token_id, "pad_token_id": words.pad_token_id}
    return conv_clip(seed, SIDE, vocab_size=len(words), **ids)


def tuned_conv_clip(seed: int, amount: float = 0.1) -> Any:
    """The same with its picture tower moved a little: weights, statistics, and counters that are its own."""
    model, other = random_conv_clip(0), random_conv_clip(seed).state_dict()
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if not tensor.is_floating_point():
                tensor.copy_(other[name])
            elif name.startswith("vision_model."):
                tensor.lerp_(other[name], amount)
    return model


def conv_pool(folder: Path) -> dict[str, Any]:
    """A convolutional base and two fine-tunes on disk, as a recipe's pool."""
    models = {name: str(save_clip(tuned_conv_clip(seed), folder / name)) for seed, name in enumerate(("one", "two"), 1)}
    return {"base": str(save_clip(random_conv_clip(0), folder / "base")), "models": models}


def colour_clip(also: Mapping[str, str] | None = None) -> Any:
    """A CLIPModel that knows red, green and blue by construction: both towers average what they see.

    `also` are more words that it reads as colours; its tokenizer is that of these words (`tokenizer(also)`).

    Patches give their mean colour to the first three numbers, colour words have a one there. Attention is uniform
    (queries and keys are zero) and passes values on unchanged; the MLPs add nothing.
    """
    from transformers import CLIPModel

    also = also or {}
    words = tokenizer(also)
    model = CLIPModel(clip_config(words)).eval()
    eye = torch.eye(8)
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if "norm" not in name or name.endswith("bias"):
                tensor.zero_()
        for tower in (model.vision_model, model.text_model):
            attention = tower.encoder.layers[0].self_attn
            attention.v_proj.weight.copy_(eye)
            attention.out_proj.weight.copy_(eye)
        for number, colour in enumerate(COLOURS):
            model.vision_model.embeddings.patch_embedding.weight[number, number] = 1 / 16
            for word in (colour, *(word for word, meant in also.items() if meant == colour)):
                (token,) = words(word, add_special_tokens=False)["input_ids"]
                model.text_model.embeddings.token_embedding.weight[token, number] = 1.0
        model.visual_projection.weight.copy_(eye[:3])
        model.text_projection.weight.copy_(eye[:3])
        model.logit_scale.fill_(2.0)
    return model


def save_clip(model: Any, folder: Path, **files: str) -> Path:
    """A from_pretrained folder with tokenizer and processor."""
    model.save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return folder


def colour_pictures(counts: Mapping[str, int], seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Noisy pictures of one colour each, and their labels, in a mixed order."""
    draw = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(COLOURS)), [counts[name] for name in COLOURS])
    labels = draw.permutation(labels)
    plain = np.array(list(COLOURS.values()))[labels][:, None, None, :]
    noise = draw.integers(-60, 60, (len(labels), SIDE, SIDE, 3))
    return np.clip(plain + noise, 0, 255).astype(np.uint8), labels


def write_task(folder: Path, counts: Mapping[str, int] | None = None, **words: Any) -> Path:
    """A task of coloured pictures as a mosaic, with a `val` and a `test` split; `words` change its task.yaml."""
    folder.mkdir(parents=True, exist_ok=True)
    labels = {}
    for seed, split in enumerate(("val", "test")):
        pictures, labels[split] = colour_pictures(counts or dict.fromkeys(COLOURS, 10), seed)
        write_mosaic(folder / f"{split}.png", pictures, compress_level=1)
    np.savez(folder / "labels.npz", **labels)
    content = {
        "name": folder.name,
        "version": 1,
        "title": "Colours",
        "classes": list(COLOURS),
        "templates": list(TEMPLATES),
        "size": SIDE,
        "data": {"mosaics": {"val": "val.png", "test": "test.png"}, "labels": "labels.npz"},
    }
    (folder / "task.yaml").write_text(yaml.safe_dump({**content, **words}, sort_keys=False))
    (folder / "README.md").write_text("# Colours\n\nPlain pictures.\n\n## Licence\n\nCC0.\n")
    return folder
