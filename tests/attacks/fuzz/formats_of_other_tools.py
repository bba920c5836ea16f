"""Formats of other tools: GGUF files of llama.cpp, checkpoints of open_clip."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from fuzz.damage_files import json_file, safetensors
from fuzz.damage_gguf import gguf
from fuzz.format import Format
from fuzz.sound_models import pool
from safetensors.torch import load_file, save_file

import smelt
from checkpoints import random_state, write_model

__all__ = ["FORMATS"]

LLAMA_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.layers.0.self_attn.q_proj.weight": "blk.0.attn_q.weight",
    "model.layers.0.self_attn.k_proj.weight": "blk.0.attn_k.weight",
    "model.layers.0.mlp.up_proj.weight": "blk.0.ffn_up.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
GGUF_SHAPES = {
    "model.embed_tokens.weight": (8, 32),
    "model.layers.0.self_attn.q_proj.weight": (32, 32),
    "model.layers.0.self_attn.k_proj.weight": (16, 32),
    "model.layers.0.mlp.up_proj.weight": (64, 32),
    "model.norm.weight": (32,),
    "lm_head.weight": (8, 32),
}


def _make_gguf(place: Path) -> None:
    import gguf as library
    import numpy as np

    kinds = library.GGMLQuantizationType
    plain = write_model(place / "cars", random_state(1, GGUF_SHAPES), None)
    tensors = {name: tensor.numpy() for name, tensor in random_state(2, GGUF_SHAPES).items()}
    for file, architecture in (("plain.gguf", "unheard-of"), ("llama.gguf", "llama")):
        writer = library.GGUFWriter(place / file, architecture)
        fields = {"block_count": 1, "embedding_length": 32, "attention.head_count": 2, "attention.head_count_kv": 1}
        for name, value in {**fields, "feed_forward_length": 64, "context_length": 64}.items():
            writer.add_uint32(f"{architecture}.{name}", value)
        writer.add_float32(f"{architecture}.rope.freq_base", 10000.0)
        writer.add_token_list([f"token {number}" for number in range(8)])
        writer.add_bool("a.flag", True)
        writer.add_array("some.numbers", [1, 2, 3])
        for number, (name, values) in enumerate(tensors.items()):
            stored = LLAMA_NAMES[name] if architecture == "llama" else name
            kind = (None, kinds.F16, kinds.Q8_0, kinds.Q4_0)[number % 4] if values.ndim > 1 else None
            given = values if kind is None else library.quantize(np.ascontiguousarray(values), kind)
            writer.add_tensor(stored, given, raw_dtype=kind)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
    assert plain.is_dir()


def _merge_gguf(place: Path, file: str) -> Any:
    models = {"cars": str(place / "cars"), "birds": str(place / file)}
    smelt.plan(models)
    return file, smelt.merge(models)


def _is_the_mean_of_gguf(place: Path, made: tuple[str, dict[str, torch.Tensor]]) -> str | None:
    """By the gguf package's own reader; the rows of q and k, which llama.cpp orders otherwise, are left out."""
    import gguf as library

    file, merged = made
    cars = load_file(place / "cars/model.safetensors")
    try:
        opened = library.GGUFReader(place / file)
    except ValueError:  # it minds the type of fields that we only need the value of
        return None
    architecture = opened.fields.get("general.architecture")
    if (architecture is not None and architecture.contents() == "llama") != (file == "llama.gguf"):
        return None  # its norms may be stored in another way
    found = {one.name: one for one in opened.tensors}
    for name in GGUF_SHAPES:
        if "self_attn" in name:
            continue
        one = found[LLAMA_NAMES[name] if file == "llama.gguf" else name]
        values = torch.from_numpy(library.dequantize(one.data, one.tensor_type).astype("float64"))
        wanted = (cars[name].double() + values.view(cars[name].shape)) / 2
        if not torch.allclose(merged[name].double(), wanted, rtol=1e-2, atol=1e-3):
            return f"{name!r} is not the mean of what the files hold"
    return None


def _make_open_clip(place: Path) -> None:
    width, block = 8, "transformer.resblocks.0"
    inner = {f"{block}.ln_1.weight": (width,), f"{block}.ln_1.bias": (width,)}
    inner |= {f"{block}.attn.in_proj_weight": (3 * width, width), f"{block}.attn.in_proj_bias": (3 * width,)}
    inner |= {f"{block}.attn.out_proj.weight": (width, width), f"{block}.attn.out_proj.bias": (width,)}
    inner |= {f"{block}.ln_2.weight": (width,), f"{block}.ln_2.bias": (width,)}
    inner |= {f"{block}.mlp.c_fc.weight": (16, width), f"{block}.mlp.c_fc.bias": (16,)}
    inner |= {f"{block}.mlp.c_proj.weight": (width, 16), f"{block}.mlp.c_proj.bias": (width,)}
    shapes: dict[str, tuple[int, ...]] = {f"visual.{name}": shape for name, shape in inner.items()} | inner
    shapes |= {"visual.conv1.weight": (width, 3, 4, 4), "visual.class_embedding": (width,)}
    shapes |= {"visual.positional_embedding": (5, width), "visual.proj": (width, 3), "text_projection": (width, 3)}
    shapes |= {f"visual.{one}.{end}": (width,) for one in ("ln_pre", "ln_post") for end in ("weight", "bias")}
    shapes |= {"token_embedding.weight": (9, width), "positional_embedding": (12, width), "logit_scale": ()}
    shapes |= {"ln_final.weight": (width,), "ln_final.bias": (width,)}
    config = {"embed_dim": 3, "vision_cfg": {"layers": 1, "width": 8, "patch_size": 4}, "text_cfg": {"width": 8}}
    for seed, name in enumerate(("cars", "birds")):
        folder = place / name
        folder.mkdir()
        save_file(random_state(seed, shapes), folder / "open_clip_model.safetensors")
        (folder / "open_clip_config.json").write_text(json.dumps({"model_cfg": config, "preprocess_cfg": {}}))


def _sum_is_kept(place: Path, merged: dict[str, torch.Tensor]) -> str | None:
    """Names and layout change, the numbers do not: their sum is that of the files."""
    stored = [load_file(place / name / "open_clip_model.safetensors") for name in ("cars", "birds")]
    wanted = sum(tensor.double().sum().item() for state in stored for tensor in state.values()) / 2
    found = sum(tensor.double().sum().item() for tensor in merged.values())
    return None if abs(found - wanted) <= 1e-2 + 1e-3 * abs(wanted) else f"the numbers sum to {found}, not {wanted}"


def _merge(place: Path, file: str) -> Any:
    return smelt.merge(pool(place))


FORMATS = [
    Format("gguf", _make_gguf, {"plain.gguf": gguf, "llama.gguf": gguf}, _merge_gguf, _is_the_mean_of_gguf, share=2),
    Format(
        "open_clip",
        _make_open_clip,
        {"birds/open_clip_model.safetensors": safetensors, "birds/open_clip_config.json": json_file},
        _merge,
        _sum_is_kept,
    ),
]
