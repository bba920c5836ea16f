"""What FusionBench's pair SVHN and MNIST needs, under the public names; what is there already stays.

openai/clip-vit-base-patch32             a whole CLIPModel in pytorch_model.bin, with `position_ids`
tanganke/clip-vit-base-patch32_TASK      CLIPVisionModel: `vision_model.*` alone, without tokenizer and processor
ufldl-stanford/svhn, ylecun/mnist        parquet by split, `image` and `label`
"""

from __future__ import annotations

import io
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from stand_in_hub.contents import Contents

BASE = "openai/clip-vit-base-patch32"
TASKS = {"svhn": ("ufldl-stanford/svhn", "cropped_digits"), "mnist": ("ylecun/mnist", "mnist")}
PICTURES = {"train": 300, "test": 40}


def fill(contents: Contents) -> None:
    if contents.find("models", BASE) is None:
        contents.add_model(BASE, base_files())
    for number, (task, (data, folder)) in enumerate(TASKS.items()):
        if contents.find("models", f"tanganke/clip-vit-base-patch32_{task}") is None:
            contents.add_model(f"tanganke/clip-vit-base-patch32_{task}", tuned_files(number))
        if contents.find("datasets", data) is None:
            contents.add_dataset(data, data_files(folder, number))


def base_files() -> dict[str, bytes]:
    import torch

    from pico_clip import PROCESSOR

    state = _base()
    state |= {"vision_model.embeddings.position_ids": torch.arange(5)[None]}
    pickled = io.BytesIO()
    torch.save(state, pickled)
    with tempfile.TemporaryDirectory() as place:
        _model().save_pretrained(place)
        _words().save_pretrained(place)
        files = {one.name: one.read_bytes() for one in Path(place).iterdir() if one.suffix != ".safetensors"}
    return {
        **files,
        "preprocessor_config.json": json.dumps(PROCESSOR).encode(),
        "pytorch_model.bin": pickled.getvalue(),
    }


def tuned_files(number: int) -> dict[str, bytes]:
    import torch
    from safetensors.torch import save

    draw = torch.Generator().manual_seed(number + 1)
    tower = {key: one for key, one in _base().items() if key.startswith("vision_model.")}
    moved = {key: one + 0.05 * torch.randn(one.shape, generator=draw) for key, one in tower.items()}
    config = {**_model().config.vision_config.to_dict(), "architectures": ["CLIPVisionModel"]}
    return {
        "config.json": json.dumps(config, default=str).encode(),
        "model.safetensors": save(moved, {"format": "pt"}),
    }


def data_files(folder: str, seed: int) -> dict[str, bytes]:
    head = ["---", "configs:", f"- config_name: {folder}", "  data_files:"]
    for split in PICTURES:
        head += [f"  - split: {split}", f"    path: {folder}/{split}-*"]
    tables = {f"{folder}/{split}-00000-of-00001.parquet": _parquet(split, seed) for split in PICTURES}
    return {**tables, "README.md": "\n".join([*head, "---", ""]).encode()}


def _parquet(split: str, seed: int) -> bytes:
    import datasets
    from PIL import Image

    draw, count = np.random.default_rng([seed, PICTURES[split]]), PICTURES[split]
    labels = draw.permutation(np.arange(count) % 10)
    pictures = []
    for label in labels:
        written = io.BytesIO()
        Image.fromarray((draw.integers(0, 55, (8, 8, 3)) + 20 * label).astype(np.uint8)).save(written, "PNG")
        pictures.append({"bytes": written.getvalue(), "path": None})
    kinds = datasets.Features(image=datasets.Image(), label=datasets.ClassLabel(names=[str(n) for n in range(10)]))
    written = io.BytesIO()
    datasets.Dataset.from_dict({"image": pictures, "label": labels.tolist()}, features=kinds).to_parquet(written)
    return written.getvalue()


def _words() -> Any:
    """A tokenizer of whole words: those of the prompts for digits."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    known = ["<unk>", "<pad>", "<s>", "</s>", *'a photo of the number : " .'.split(), *map(str, range(10))]
    raw = Tokenizer(models.WordLevel({word: number for number, word in enumerate(known)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation()])
    raw.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", known.index("<s>")), ("</s>", known.index("</s>"))]
    )
    marks = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=raw, **marks)


def _model() -> Any:
    """Random numbers, large enough that classes differ."""
    import torch
    from transformers import CLIPModel

    from pico_clip import clip_config

    config = clip_config(_words())
    config.text_config.max_position_embeddings = 24
    torch.manual_seed(3)
    model = CLIPModel(config).eval()
    with torch.no_grad():
        for tensor in model.parameters():
            if tensor.ndim > 1:
                tensor.normal_(0, 0.3)
    return model


def _base() -> dict[str, Any]:
    return {key: one.clone() for key, one in _model().state_dict().items() if not key.endswith("position_ids")}
