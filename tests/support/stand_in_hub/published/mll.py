"""The hub of Model Label Learning in small: 49 models under the repositories that open_clip 3.3 names, and data sets.

Every model is of its architecture's kind (residual network, vision transformer, ConvNeXt, EVA, CoCa, SigLIP, a text
tower of transformers) and lies as on the Hub: `open_clip_config.json` beside `open_clip_model.safetensors`, in timm's
repositories with timm's own `config.json` and `model.safetensors`, in Apple's and NLLB-CLIP's as a pickle alone. It is
made when somebody first asks for it.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

from smelt.tasks.pictures.task import HubData
from stand_in_hub.contents import Contents

PICTURES = 2
"""Of each class that a data set shows."""
SIDE = 32
"""Pixels of what the models take; timm's own small transformers take 160 and 224."""
PICKLED = ("apple/", "visheratin/")
"""Whose repositories are taken to hold open_clip's weights as a pickle alone."""
_CLIP_TEXT = {"context_length": 77, "vocab_size": 49408, "width": 8, "heads": 1, "layers": 1}
_TEXT_TOWERS = {
    "roberta-base": {"model_type": "roberta", "pad_token_id": 1, "type_vocab_size": 1, "max_position_embeddings": 130},
    "xlm-roberta-base": {
        "model_type": "xlm-roberta", "pad_token_id": 1, "type_vocab_size": 1, "max_position_embeddings": 130,
    },
    "facebook/nllb-200-distilled-600M": {"model_type": "m2m_100", "pad_token_id": 1, "max_position_embeddings": 130},
}  # fmt: skip


def fill(contents: Contents, repositories: Mapping[str, str]) -> None:
    """Put the models {repository: architecture} there, and the text towers that some of them name."""
    for repository, architecture in repositories.items():
        contents.later("models", repository, functools.partial(_files, repository, architecture))
    for name, words in _TEXT_TOWERS.items():
        contents.add_model(name, _text_tower(words))


def fill_data(contents: Contents, tasks: Mapping[str, Sequence[str]], samples: Mapping[str, Mapping[int, int]]) -> None:
    """Put data sets there. `tasks` are public tasks by name, with the classes that their pictures are of;
    `samples` are sets of ImageNet's family as tar files: how many pictures of which labels.
    """
    from smelt.tasks.registry import picture_task

    for name, shown in tasks.items():
        task = picture_task(name)
        data = task.data
        assert isinstance(data, HubData)
        labels = [task.classes.index(one) for one in shown for _ in range(PICTURES)]
        make = _tar if data.dataset.startswith("clip-benchmark/") else _parquet
        contents.later("datasets", data.dataset, functools.partial(make, data, labels, len(task.classes)))
    for name, counts in samples.items():
        labels = [label for label, count in counts.items() for _ in range(count)]
        data = HubData(dataset=name, splits={"test": "test"}, image="jpg", label="cls")
        contents.later("datasets", name, functools.partial(_tar, data, labels, 0))


def _tar(data: HubData, labels: Sequence[int], classes: int) -> dict[str, bytes]:
    """WebDataset: two tar files with a picture and a label for each key. The library takes the most common kind."""
    del classes
    half, split = (len(labels) + 1) // 2, data.splits["test"]
    every = list(enumerate(labels))
    shards = {f"{split}/{n}.tar": _shard(data, part) for n, part in enumerate((every[:half], every[half:]))}
    return {**shards, f"{split}/nshards.txt": b"2"}


def _shard(data: HubData, labels: Sequence[tuple[int, int]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for number, label in labels:
            content = _picture(label, number, "PNG" if data.image == "png" else "JPEG")
            for suffix, file in ((data.image, content), ("cls", str(label).encode())):
                about = tarfile.TarInfo(f"s{number:07d}.{suffix}")
                about.size = len(file)
                tar.addfile(about, io.BytesIO(file))
    return buffer.getvalue()


def _parquet(data: HubData, labels: Sequence[int], classes: int) -> dict[str, bytes]:
    """data/test-00000-of-00001.parquet, with the names of the classes as features; videos have three frames."""
    import datasets

    frames = 3 if data.middle_of else 1
    every = [label for label in labels for _ in range(frames)]
    columns = {
        data.image: [{"bytes": _picture(label, number, "PNG"), "path": None} for number, label in enumerate(every)],
        data.label: every,
        **{column: [number // frames for number in range(len(every))] for column in data.middle_of or ()},
    }
    kinds = {data.image: datasets.Image(), data.label: datasets.ClassLabel(names=[str(n) for n in range(classes)])}
    more = {column: datasets.Value("int64") for column in data.middle_of or ()}
    buffer = io.BytesIO()
    datasets.Dataset.from_dict(columns, features=datasets.Features({**kinds, **more})).to_parquet(buffer)
    return {f"data/{data.splits['test']}-00000-of-00001.parquet": buffer.getvalue()}


def _picture(label: int, number: int, kind: str) -> bytes:
    """A solid colour for each label, a little different in each picture."""
    from PIL import Image

    colour = tuple((37 * (label + 1) * (axis + 2) + 3 * number) % 256 for axis in range(3))
    buffer = io.BytesIO()
    Image.new("RGB", (40, 36), colour).save(buffer, kind)
    return buffer.getvalue()


def tiny_config(architecture: str, repository: str = "") -> dict[str, Any]:
    """The `model_cfg` of a small model of an architecture's kind."""
    vision: dict[str, Any] = {"image_size": SIDE}
    config: dict[str, Any] = {"embed_dim": 8, "vision_cfg": vision, "text_cfg": dict(_CLIP_TEXT)}
    if architecture.startswith("RN"):
        vision |= {"layers": [1, 1, 1, 1], "width": 4, "head_width": 32, "patch_size": None}
    elif architecture.startswith("convnext"):
        vision |= _timm("test_convnext", "", "linear")
    elif architecture.startswith("EVA"):
        vision |= {"image_size": 224, **_timm("eva02_tiny_patch14_224", "token", None)}
        config["custom_text"] = True
    elif "siglip" in architecture.lower():
        vision |= {"image_size": 160, **_timm("test_vit3", "map", None)}
        config |= {"custom_text": True, "init_logit_bias": -10}
    else:
        vision |= {"layers": 1, "width": 16, "head_width": 8, "patch_size": 16}
    if architecture.startswith("coca"):
        pooled = {"attentional_pool": True, "attn_pooler_heads": 2, "attn_pooler_queries": 4, "output_tokens": True}
        vision |= pooled
        config["text_cfg"] |= {"context_length": 76, "embed_cls": True, "output_tokens": True}
        many = {"context_length": 76, "vocab_size": 49408, "width": 8, "heads": 1, "layers": 1, "attn_pooler_heads": 1}
        config |= {"multimodal_cfg": many, "custom_text": True}
    text = _text_name(architecture)
    if text is not None:
        names = {"hf_model_name": text, "hf_tokenizer_name": text}
        pooler = "cls_pooler" if "nllb" in architecture else "mean_pooler"
        config["text_cfg"] = {**names, "hf_pooler_type": pooler, "hf_proj_type": "linear"}
    if architecture.startswith("ViT") and "SigLIP" in architecture:
        config["text_cfg"] |= {"context_length": 64, "vocab_size": 200, "hf_tokenizer_name": repository}
    if "quickgelu" in architecture or architecture.startswith("roberta"):
        config["quick_gelu"] = True
    return config


def _timm(name: str, pool: str, projection: str | None) -> dict[str, Any]:
    return {"timm_model_name": name, "timm_model_pretrained": False, "timm_pool": pool, "timm_proj": projection}


def _text_name(architecture: str) -> str | None:
    kinds = {"roberta-": "roberta-base", "xlm-roberta": "xlm-roberta-base", "nllb": "facebook/nllb-200-distilled-600M"}
    return next((name for start, name in kinds.items() if architecture.startswith(start)), None)


def _files(repository: str, architecture: str) -> dict[str, bytes]:
    """What a repository holds."""
    import torch
    from safetensors.torch import save

    config = tiny_config(architecture, repository)
    state = _weights(repository, config)
    squash = {"resize_mode": "squash", "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}
    preprocess = squash if "siglip" in architecture.lower() else {"interpolation": "bicubic", "resize_mode": "shortest"}
    files = {
        "open_clip_config.json": _json({"model_cfg": config, "preprocess_cfg": preprocess}),
        "README.md": f"---\nlicense: mit\n---\n# {repository}\nA small {architecture} for tests.\n".encode(),
    }
    if "SigLIP" in architecture:
        files |= _tokenizer("<pad>", "</s>")
    if repository.startswith(PICKLED):
        buffer = io.BytesIO()
        torch.save(state, buffer)
        return {**files, "open_clip_pytorch_model.bin": buffer.getvalue()}
    files["open_clip_model.safetensors"] = save(state)
    if repository.startswith("timm/"):  # the picture tower alone, for timm
        tower = {name.removeprefix("visual."): one for name, one in state.items() if name.startswith("visual.")}
        files |= {
            "config.json": _json({"architecture": architecture, "num_classes": 8}),
            "model.safetensors": save(tower),
        }
    return files


def _weights(repository: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """Random ones, the same for a repository wherever they are made."""
    import tempfile
    from pathlib import Path

    import torch

    from smelt.models.families.open_clip.library import open_clip

    library = open_clip()
    words = json.loads(json.dumps(config))
    custom = words.pop("custom_text", False) or "hf_model_name" in words["text_cfg"]
    with tempfile.TemporaryDirectory() as place, torch.random.fork_rng():
        if (name := words["text_cfg"].get("hf_model_name")) is not None:
            (Path(place) / "config.json").write_bytes(_text_tower(_TEXT_TOWERS[name])["config.json"])
            words["text_cfg"] |= {"hf_model_name": place, "hf_model_pretrained": False}
        torch.manual_seed(int(hashlib.sha256(repository.encode()).hexdigest()[:8], 16))
        kind = "CoCa" if "multimodal_cfg" in words else "CustomTextCLIP" if custom else "CLIP"
        model = getattr(library, kind)(**words)
        state = {}
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point() and "running" not in name:
                tensor = tensor + 0.05 * torch.randn_like(tensor)
            state[name] = tensor.contiguous().clone()
    return state


def _text_tower(words: Mapping[str, Any]) -> dict[str, bytes]:
    """The config and tokenizer of a text tower, as its repository has them; its weights nobody asks for."""
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    if words["model_type"] == "m2m_100":
        layers = {f"{side}_{word}": 1 for side in ("encoder", "decoder") for word in ("layers", "attention_heads")}
        sizes = {"d_model": 8, **layers, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8, "is_encoder_decoder": True}
    config = {**words, **sizes, "vocab_size": 200, "bos_token_id": 0, "eos_token_id": 2}
    return {"config.json": _json(config), **_tokenizer("<s>", "</s>")}


@functools.cache
def _tokenizer(begin: str, end: str) -> dict[str, bytes]:
    """Bytes and a few pairs of them: every text can be cut."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    special = [begin, "<pad>" if begin != "<pad>" else "<s>", end, "<unk>"]
    letters = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())][:200]
    made = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, [], unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A {end}", special_tokens=[(begin, letters.index(begin)), (end, letters.index(end))]
    )
    named = {"bos_token": begin, "eos_token": end, "pad_token": "<pad>", "unk_token": "<unk>", "cls_token": begin}
    about = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 77, "sep_token": end, **named}
    return {"tokenizer.json": made.to_str().encode(), "tokenizer_config.json": _json(about)}


def _json(content: Any) -> bytes:
    return json.dumps(content, indent=2).encode()
