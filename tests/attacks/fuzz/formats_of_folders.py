"""Formats that stand beside weights: config, tokenizer, adapter, models of pictures and texts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from fuzz.damage_files import json_file, safetensors, text
from fuzz.format import Format
from fuzz.sound_models import LLAMA, LLAMA_SHAPES, make_llamas, pool
from safetensors.torch import load_file, save_file

import smelt
from checkpoints import random_state, write_model

__all__ = ["FORMATS"]

BESIDE = ("config", "generation_config", "tokenizer_config", "special_tokens_map")


def _merge_to_folder(place: Path, **words: Any) -> Any:
    request = pool(place), str(place / "base")
    smelt.check_models(request[0], base=request[1])
    method = ("task_arithmetic", {"scale": 1.0})
    smelt.merge(request[0], base=request[1], method=method, out=place / "out", force=True, **words)
    return smelt.verify(place / "out")


def _merge_configs(place: Path, file: str) -> Any:
    return _merge_to_folder(place, chat_template="auto")


def _merge_vocabularies(place: Path, file: str) -> Any:
    return _merge_to_folder(place, vocab="union")


def _made_whole(place: Path, found: Any) -> str | None:
    """Whether the output is what its manifest says, and its weights what a sum by hand gives."""
    if not found.ok:
        return f"the output does not verify: {found.faults}"
    merged = load_file(place / "out/model.safetensors")
    states = [load_file(place / name / "model.safetensors") for name in ("base", "cars", "birds")]
    for name, tensor in merged.items():
        if "embed" in name or "head" in name:  # their rows go by the words
            continue
        base, cars, birds = (state[name] for state in states)
        if not torch.allclose(tensor, cars + birds - base, atol=1e-5):
            return f"{name!r} is not base + changes"
    return None


def _make_adapter(place: Path) -> None:
    make_llamas(place)
    folder = place / "adapter"
    folder.mkdir()
    q = "base_model.model.model.layers.0.self_attn.q_proj"
    up = "base_model.model.model.layers.0.mlp.up_proj"
    shapes = {f"{q}.lora_A.weight": (2, 4), f"{q}.lora_B.weight": (4, 2)}
    shapes |= {f"{up}.lora_A.weight": (2, 4), f"{up}.lora_B.weight": (8, 2)}
    save_file(random_state(5, shapes), folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": str(place / "base"),
        "r": 2,
        "lora_alpha": 4,
        "use_rslora": False,
        "use_dora": False,
        "fan_in_fan_out": False,
        "bias": "none",
        "lora_dropout": 0.0,
        "target_modules": ["q_proj", "up_proj"],
        "modules_to_save": None,
        "rank_pattern": {"up_proj": 2},
        "alpha_pattern": {"q_proj": 4},
        "layers_to_transform": None,
        "init_lora_weights": True,
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))


def _merge_adapter(place: Path, file: str) -> Any:
    models = {"cars": str(place / "cars"), "birds": f"{place / 'base'}+{place / 'adapter'}"}
    smelt.plan({"cars": models["cars"], "birds": str(place / "adapter")})
    return smelt.merge(models)


def _is_the_adapted_mean(place: Path, merged: dict[str, torch.Tensor]) -> str | None:
    """By hand, where the settings are as they were."""
    try:
        config = json.loads((place / "adapter/adapter_config.json").read_bytes())
    except (ValueError, RecursionError):
        return "adapter_config.json is no JSON, but was accepted"
    lora = load_file(place / "adapter/adapter_model.safetensors")
    plain = {"r": 2, "lora_alpha": 4, "rank_pattern": {"up_proj": 2}, "alpha_pattern": {"q_proj": 4}}
    known = {**plain, "use_rslora": False, "fan_in_fan_out": False, "peft_type": "LORA"}
    if any(config.get(word) != value for word, value in known.items()):
        return None
    cars, base = (load_file(place / name / "model.safetensors") for name in ("cars", "base"))
    for name in ("model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj"):
        a, b = (lora.get(f"base_model.model.{name}.lora_{side}.weight") for side in "AB")
        if a is None or b is None:
            return None
        wanted = (cars[f"{name}.weight"] + base[f"{name}.weight"] + 2 * b.float() @ a.float()) / 2
        if not torch.allclose(merged[f"{name}.weight"], wanted, rtol=1e-2, atol=1e-4):
            return f"{name} is not the mean of cars and the adapted base"
    return None


def _make_image_text(place: Path) -> None:
    shapes = {f"language_model.{name}": shape for name, shape in LLAMA_SHAPES.items()}
    shapes |= {"multi_modal_projector.linear_1.weight": (4, 4)}
    tower = random_state(9, {"vision_tower.vision_model.post_layernorm.weight": (4,)})
    vision = {"model_type": "clip_vision_model", "hidden_size": 4, "num_hidden_layers": 1, "image_size": 8}
    config = {"model_type": "llava", "text_config": LLAMA, "vision_config": vision, "image_token_index": 7}
    for seed, name in enumerate(("base", "cars", "birds")):
        folder = write_model(place / name, random_state(seed, shapes) | tower, config)
        (folder / "preprocessor_config.json").write_text(json.dumps({"size": {"shortest_edge": 8}, "do_resize": True}))


def _merge_image_text(place: Path, file: str) -> Any:
    return _merge_to_folder(place)


FORMATS = [
    Format(
        "config",
        make_llamas,
        {f"{model}/{name}.json": json_file for model in ("base", "birds") for name in BESIDE}
        | {"birds/chat_template.jinja": text},
        _merge_configs,
        _made_whole,
        share=2,
    ),
    Format(
        "tokenizer",
        lambda place: make_llamas(place, apart=True),
        {f"{model}/tokenizer.json": json_file for model in ("base", "birds")}
        | {"birds/added_tokens.json": json_file, "cars/tokenizer_config.json": json_file},
        _merge_vocabularies,
        _made_whole,
        share=2,
    ),
    Format(
        "adapter",
        _make_adapter,
        {"adapter/adapter_config.json": json_file, "adapter/adapter_model.safetensors": safetensors},
        _merge_adapter,
        _is_the_adapted_mean,
        share=2,
    ),
    Format(
        "image_text",
        _make_image_text,
        {"birds/config.json": json_file, "base/preprocessor_config.json": json_file},
        _merge_image_text,
    ),
]
