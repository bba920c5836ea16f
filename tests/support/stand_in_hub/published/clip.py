"""CLIP under its public names: OpenAI's bases, FusionBench's fine-tunes on twenty tasks, and their data sets; all tiny.

    openai/clip-vit-base-patch32      whole CLIPModel, pytorch_model.bin and no safetensors on `main`, weights for
    openai/clip-vit-base-patch16      TensorFlow and Flax beside them
    openai/clip-vit-large-patch14     the same with model.safetensors
    tanganke/clip-vit-*_TASK          CLIPVisionModel: `vision_model.*` alone, no tokenizer, no processor
    tanganke/TASK and others          parquet; fer2013 as tar files (WebDataset), rendered-sst2 as a folder of pictures

The bases hold `position_ids`, as OpenAI's files do; fine-tunes were saved by a newer library and do not.
"""

from __future__ import annotations

import io
import json
import tarfile
import zlib
from collections.abc import Mapping
from functools import cache
from string import ascii_lowercase
from typing import Any

import numpy as np

from stand_in_hub.contents import Contents

FAMILIES = {
    "clip-vit-base-patch32": {"patch_size": 8, "num_hidden_layers": 2, "hidden_size": 8},
    "clip-vit-base-patch16": {"patch_size": 4, "num_hidden_layers": 2, "hidden_size": 8},
    "clip-vit-large-patch14": {"patch_size": 4, "num_hidden_layers": 3, "hidden_size": 12},
}
"""The bases by the name that fine-tunes carry on, with what is special about the picture tower of each."""
SAFE = frozenset({"clip-vit-large-patch14"})
"""The bases that have safetensors on `main`."""
SIDE = 16
"""Of the pictures that the models take; the public ones take 224."""
CORRUPTIONS = (
    *("contrast", "gaussian_noise", "impulse_noise", "jpeg_compression", "motion_blur", "pixelate", "spatter"),
)
"""The splits with damaged test pictures."""
CORRUPTED = frozenset({"stanford_cars", "eurosat", "resisc45", "gtsrb"})
PICTURES = {"train": 290, "validation": 24, "test": 30}
"""How many each split has: FusionBench looks at 256 of a `train` whose last tenth is held out."""
NAMES = {"stanford_cars": "stanford-cars", "oxford_iiit_pet": "oxford-iiit-pet", "rendered_sst2": "rendered-sst2"}
"""Tasks whose fine-tunes are called otherwise."""


def fill(contents: Contents) -> None:
    """Put all of it there; what nobody asks for is never made."""
    from smelt.tasks.groups import GROUPS
    from smelt.tasks.registry import picture_task

    for arch in FAMILIES:
        contents.later("models", f"openai/{arch}", lambda arch=arch: base_files(arch))
        for number, task in enumerate(GROUPS["TALL20"]):
            name = f"tanganke/{arch}_{NAMES.get(task, task)}"
            contents.later("models", name, lambda arch=arch, number=number: tuned_files(arch, number))
    for task in GROUPS["TALL20"]:
        dataset = picture_task(task).data.dataset
        contents.later("datasets", dataset, lambda task=task: data_files(task))


def base_files(arch: str) -> dict[str, bytes]:
    """A whole model as OpenAI's repositories hold it."""
    import torch
    from safetensors.torch import save

    state = dict(_base(arch))
    tokens, patches = 77, (SIDE // FAMILIES[arch]["patch_size"]) ** 2 + 1
    state["text_model.embeddings.position_ids"] = torch.arange(tokens)[None]
    state["vision_model.embeddings.position_ids"] = torch.arange(patches)[None]
    pickled = io.BytesIO()
    torch.save(state, pickled)
    weights = {"pytorch_model.bin": pickled.getvalue(), "tf_model.h5": b"another library's", "flax_model.msgpack": b"1"}
    if arch in SAFE:
        weights["model.safetensors"] = save(state, {"format": "pt"})
    return {**weights, "config.json": _json(_config(arch)), "README.md": b"# CLIP\n", **_processor(), **_tokenizer()}


def tuned_files(arch: str, number: int) -> dict[str, bytes]:
    """A fine-tune as FusionBench's repositories hold it: the picture tower by itself."""
    import torch
    from safetensors.torch import save

    generator = torch.Generator().manual_seed(100 + number)
    state = {
        name: tensor + 0.05 * torch.randn(tensor.shape, generator=generator)
        for name, tensor in _base(arch).items()
        if name.startswith("vision_model.")
    }
    config = {
        **_config(arch)["vision_config"],
        "_name_or_path": f"openai/{arch}",
        "architectures": ["CLIPVisionModel"],
        "transformers_version": "4.40.1",
    }
    return {
        "config.json": _json(config),
        "model.safetensors": save(state, {"format": "pt"}),
        "README.md": b"# A fine-tune\n",
    }


def data_files(task: str) -> dict[str, bytes]:
    """A data set with the public splits and columns."""
    from smelt.tasks.registry import picture_task

    known = picture_task(task)
    splits = dict.fromkeys(known.data.splits.values())
    if task == "fer2013":
        return {f"{split}/0.tar": _tar(task, split, len(known.classes)) for split in splits}
    if task == "rendered_sst2":
        return _folder(task, list(splits), known.classes)
    if task in CORRUPTED:
        splits |= dict.fromkeys(CORRUPTIONS)
    folder = {"svhn": "cropped_digits", "emnist_letters": "emnist-letters"}.get(task, "data")
    return {
        f"{folder}/{split}-00000-of-00001.parquet": _parquet(task, split, known.classes) for split in splits
    } | _card(folder, splits)


def _card(folder: str, splits: Mapping[str, Any]) -> dict[str, bytes]:
    """The head of a README.md, which says what lies where."""
    name = "default" if folder == "data" else folder
    lines = ["---", "configs:", f"- config_name: {name}", "  data_files:"]
    for split in splits:
        lines += [f"  - split: {split}", f"    path: {folder}/{split}-*"]
    return {"README.md": "\n".join([*lines, "---", ""]).encode()}


def _parquet(task: str, split: str, classes: tuple[str, ...]) -> bytes:
    import datasets

    pictures, labels = _pictures(task, split, len(classes))
    label: Any = datasets.Value("bool") if task == "pcam" else datasets.ClassLabel(names=list(map(str, classes)))
    features = {"image": datasets.Image(), "label": label}
    table: dict[str, Any] = {"image": [{"bytes": one, "path": None} for one in pictures], "label": labels}
    if task == "oxford_iiit_pet":
        features |= {"image_id": datasets.Value("string"), "label_cat_dog": datasets.ClassLabel(names=["cat", "dog"])}
        table |= {"image_id": [f"p{number}" for number in range(len(labels))], "label_cat_dog": [0] * len(labels)}
    if task == "pcam":
        table["label"] = [bool(one) for one in labels]
    written = io.BytesIO()
    datasets.Dataset.from_dict(table, features=datasets.Features(features)).to_parquet(written)
    return written.getvalue()


def _tar(task: str, split: str, classes: int) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for number, (picture, label) in enumerate(zip(*_pictures(task, split, classes, "JPEG"), strict=True)):
            for suffix, content in (("jpg", picture), ("cls", str(label).encode())):
                about = tarfile.TarInfo(f"s{number:07}.{suffix}")
                about.size = len(content)
                archive.addfile(about, io.BytesIO(content))
    return written.getvalue()


def _folder(task: str, splits: list[str], classes: tuple[str, ...]) -> dict[str, bytes]:
    return {
        f"{split}/{classes[label]}/{number}.png": picture
        for split in splits
        for number, (picture, label) in enumerate(zip(*_pictures(task, split, len(classes)), strict=True))
    }


def _pictures(task: str, split: str, classes: int, kind: str = "PNG") -> tuple[list[bytes], list[int]]:
    """Noise around a grey that follows from the label; the same for the same task and split."""
    from PIL import Image

    draw = np.random.default_rng(zlib.crc32(f"{task}/{split}".encode()))
    count = PICTURES.get(split, PICTURES["test"]) + (classes if split == "train" else 0)
    labels = draw.permutation(np.arange(count) % classes)
    noise = draw.integers(0, 60, (count, SIDE, SIDE, 3)) + (195 * labels // classes)[:, None, None, None]
    files = []
    for pixels in noise.astype(np.uint8):
        written = io.BytesIO()
        Image.fromarray(pixels).save(written, kind)
        files.append(written.getvalue())
    return files, [int(label) for label in labels]


@cache
def _base(arch: str) -> dict[str, Any]:
    """Random weights, large enough that classes differ."""
    import torch
    from transformers import CLIPConfig, CLIPModel

    torch.manual_seed(zlib.crc32(arch.encode()))
    model = CLIPModel(CLIPConfig(**_config(arch))).eval()
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if tensor.ndim > 1:
                tensor.normal_(0, 0.3)
            elif name.endswith("bias"):
                tensor.normal_(0, 0.1)
    return {name: tensor.clone() for name, tensor in model.state_dict().items() if not name.endswith("position_ids")}


def _config(arch: str) -> dict[str, Any]:
    """As OpenAI's: the end of a text is found by its number, the highest, though the config says 2."""
    special = FAMILIES[arch]
    tower = {"num_attention_heads": 2, "hidden_act": "quick_gelu", "projection_dim": 8}
    return {
        "architectures": ["CLIPModel"],
        "model_type": "clip",
        "initializer_factor": 1.0,
        "logit_scale_init_value": 2.6592,
        "projection_dim": 8,
        "torch_dtype": "float32",
        "transformers_version": None,
        "text_config": {
            **tower,
            "model_type": "clip_text_model",
            "hidden_size": 8,
            "intermediate_size": 16,
            "num_hidden_layers": 1,
            "vocab_size": len(_vocabulary()),
            "max_position_embeddings": 77,
            "bos_token_id": 0,
            "eos_token_id": 2,
            "pad_token_id": 1,
        },
        "vision_config": {
            **tower,
            **special,
            "model_type": "clip_vision_model",
            "intermediate_size": 2 * special["hidden_size"],
            "image_size": SIDE,
        },
    }


def _processor() -> dict[str, bytes]:
    """In the words of 2021, as on the Hub."""
    words = {
        "crop_size": SIDE,
        "do_center_crop": True,
        "do_normalize": True,
        "do_resize": True,
        "feature_extractor_type": "CLIPFeatureExtractor",
        "image_mean": [0.48145466, 0.4578275, 0.40821073],
        "image_std": [0.26862954, 0.26130258, 0.27577711],
        "resample": 3,
        "size": SIDE,
    }
    return {"preprocessor_config.json": _json(words)}


@cache
def _merges() -> list[str]:
    """Every two letters are one token, so that the longest prompts fit 77 of them, as with the public merges."""
    return [f"{one} {two}{end}" for end in ("</w>", "") for one in ascii_lowercase for two in ascii_lowercase]


@cache
def _vocabulary() -> dict[str, int]:
    """Every byte as CLIP writes it, inside a word and at its end; what is merged; then the two marks."""
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    letters = list(bytes_to_unicode().values())
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), *(pair.replace(" ", "") for pair in _merges())]
    return {token: number for number, token in enumerate([*tokens, "<|startoftext|>", "<|endoftext|>"])}


@cache
def _tokenizer() -> dict[str, bytes]:
    import tempfile
    from pathlib import Path

    from transformers import CLIPTokenizer

    vocabulary, merges = json.dumps(_vocabulary()), "\n".join(["#version: 0.2", *_merges(), ""])
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / "vocab.json").write_text(vocabulary)
        (Path(place) / "merges.txt").write_text(merges)
        words = {"model_max_length": 77, "pad_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}
        words |= {"bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>"}
        made = CLIPTokenizer.from_pretrained(place, **words)
        made.save_pretrained(Path(place) / "whole")
        files = {one.name: one.read_bytes() for one in (Path(place) / "whole").iterdir()}
    files |= {"vocab.json": vocabulary.encode(), "merges.txt": merges.encode()}
    files["tokenizer_config.json"] = _json({**words, "tokenizer_class": "CLIPTokenizer", "do_lower_case": True})
    return files


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, indent=2).encode()
