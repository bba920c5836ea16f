"""Adapters: files in kohya's and LyCORIS's names, files of diffusers with a config in the header, PEFT's kinds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from fuzz.damage_files import json_file, safetensors
from fuzz.format import Format
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save_file

import smelt
from checkpoints import random_state, write_model

__all__ = ["FORMATS"]

BLOCK = "down_blocks.0.attentions.0.transformer_blocks.0"
SHAPES = {
    f"{BLOCK}.attn1.to_q.weight": (6, 8),
    f"{BLOCK}.attn1.to_k.weight": (6, 8),
    f"{BLOCK}.attn2.to_v.weight": (6, 8),
    "down_blocks.0.resnets.0.conv1.weight": (4, 6, 3, 3),
    "down_blocks.0.resnets.0.conv1.bias": (4,),
    "conv_in.weight": (4, 4, 3, 3),
}
Q, K, V = (f"lora_unet_{BLOCK.replace('.', '_')}_{name}" for name in ("attn1_to_q", "attn1_to_k", "attn2_to_v"))
CONV = "lora_unet_input_blocks_1_0_in_layers_2"
"""In Stability's numbering, as the tools that write for SDXL have it."""
PARTS = {
    f"{Q}.lora_down.weight": (2, 8),
    f"{Q}.lora_up.weight": (6, 2),
    f"{K}.hada_w1_a": (6, 2),
    f"{K}.hada_w1_b": (2, 8),
    f"{K}.hada_w2_a": (6, 2),
    f"{K}.hada_w2_b": (2, 8),
    f"{V}.lokr_w1": (2, 2),
    f"{V}.lokr_w2_a": (3, 1),
    f"{V}.lokr_w2_b": (1, 4),
    f"{CONV}.lora_down.weight": (2, 6, 1, 1),
    f"{CONV}.lora_mid.weight": (2, 2, 3, 3),
    f"{CONV}.lora_up.weight": (4, 2, 1, 1),
    f"{CONV}.diff_b": (4,),
}


def _make_file(place: Path) -> None:
    write_model(place / "base", random_state(1, SHAPES))
    state = random_state(2, PARTS) | {f"{name}.alpha": torch.tensor(1.5) for name in (Q, K, V, CONV)}
    save_file(state, place / "lora.safetensors")


def _merge_file(place: Path, file: str) -> Any:
    smelt.inspect(place / "lora.safetensors")
    return smelt.merge({"one": f"{place / 'base'}+{place / 'lora.safetensors'}"})


def _is_the_adapted_base(place: Path, merged: dict[str, torch.Tensor]) -> str | None:
    """By hand, for every layer whose parts are all there with the shapes that they had."""
    try:
        found = load_file(place / "lora.safetensors")
    except SafetensorError:
        return None  # this library is stricter about a header's other words
    base = load_file(place / "base/model.safetensors")
    whole = {
        name: found[name].double() for name, shape in PARTS.items() if name in found and found[name].shape == shape
    }

    def parts(module: str, *words: str) -> list[torch.Tensor] | None:
        names = [f"{module}.{word}" for word in words]
        return [whole[name] for name in names] if all(name in whole for name in names) else None

    def scale(module: str, rank: int) -> float:
        return float(found[f"{module}.alpha"]) / rank if f"{module}.alpha" in found else 1.0

    changes: dict[str, torch.Tensor] = {}
    if lora := parts(Q, "lora_up.weight", "lora_down.weight"):
        changes[f"{BLOCK}.attn1.to_q.weight"] = lora[0] @ lora[1] * scale(Q, 2)
    if loha := parts(K, "hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b"):
        changes[f"{BLOCK}.attn1.to_k.weight"] = (loha[0] @ loha[1]) * (loha[2] @ loha[3]) * scale(K, 2)
    if lokr := parts(V, "lokr_w1", "lokr_w2_a", "lokr_w2_b"):
        changes[f"{BLOCK}.attn2.to_v.weight"] = torch.kron(lokr[0], lokr[1] @ lokr[2]) * scale(V, 1)
    if locon := parts(CONV, "lora_up.weight", "lora_mid.weight", "lora_down.weight"):
        up, mid, down = locon[0].flatten(1), locon[1], locon[2].flatten(1)
        changes["down_blocks.0.resnets.0.conv1.weight"] = torch.einsum("ijkl,oi,jc->ockl", mid, up, down) * scale(
            CONV, 2
        )
    for name, change in changes.items():
        wanted = base[name].double() + change
        if wanted.isfinite().all() and not torch.allclose(merged[name].double(), wanted, rtol=1e-3, atol=1e-4):
            return f"{name} is not base + change"
    return None


def _make_diffusers(place: Path) -> None:
    write_model(place / "base", random_state(1, {f"unet.{name}": shape for name, shape in SHAPES.items()}))
    module = f"unet.{BLOCK}.attn1.to_q"
    state = random_state(2, {f"{module}.lora_A.weight": (2, 8), f"{module}.lora_B.weight": (6, 2)})
    settings = {"unet.r": 2, "unet.lora_alpha": 3, "unet.use_rslora": False, "unet.rank_pattern": {"to_k": 4}}
    save_file(state, place / "lora.safetensors", {"lora_adapter_metadata": json.dumps(settings)})


def _follows_the_header(place: Path, merged: dict[str, torch.Tensor]) -> str | None:
    try:
        with safe_open(place / "lora.safetensors", "pt") as file:
            said = json.loads((file.metadata() or {}).get("lora_adapter_metadata", "null"))
        found, base = load_file(place / "lora.safetensors"), load_file(place / "base/model.safetensors")
    except (SafetensorError, ValueError):
        return None
    known = {"unet.r": 2, "unet.lora_alpha": 3, "unet.use_rslora": False, "unet.rank_pattern": {"to_k": 4}}
    module = f"unet.{BLOCK}.attn1.to_q"
    a, b = (found.get(f"{module}.lora_{side}.weight") for side in "AB")
    if said != known or a is None or b is None or a.shape != (2, 8) or b.shape != (6, 2):
        return None
    wanted = base[f"{module}.weight"].double() + 1.5 * b.double() @ a.double()
    if wanted.isfinite().all() and not torch.allclose(
        merged[f"{module}.weight"].double(), wanted, rtol=1e-3, atol=1e-4
    ):
        return f"{module} does not have the scaling that the header says"
    return None


LANGUAGE = {
    "model.embed_tokens.weight": (8, 4),
    "model.layers.0.mlp.router.weight": (2, 4),
    "model.layers.0.mlp.experts.down_proj": (2, 4, 6),
    "model.layers.0.self_attn.q_proj.weight": (4, 4),
    "model.layers.0.input_layernorm.weight": (4,),
}


def _make_kinds(place: Path) -> None:
    write_model(place / "base", random_state(1, LANGUAGE))
    layer = "base_model.model.model.layers.0"
    shapes = {
        f"{layer}.mlp.experts.lora_A.weight": (4, 6),
        f"{layer}.mlp.experts.lora_B.weight": (4, 4),
        f"{layer}.self_attn.q_proj.lora_A.weight": (2, 4),
        f"{layer}.self_attn.q_proj.lora_B.weight": (4, 2),
        "base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta": (2, 4),
    }
    folder = place / "adapter"
    folder.mkdir()
    save_file(random_state(2, shapes), folder / "adapter_model.safetensors")
    config = {
        "peft_type": "LORA",
        "r": 2,
        "lora_alpha": 4,
        "target_modules": ["q_proj"],
        "target_parameters": ["mlp.experts.down_proj"],
        "trainable_token_indices": [1, 5],
    }
    (folder / "adapter_config.json").write_text(json.dumps(config))


def _merge_kinds(place: Path, file: str) -> Any:
    return smelt.merge({"one": f"{place / 'base'}+{place / 'adapter'}"})


def _are_the_kinds(place: Path, merged: dict[str, torch.Tensor]) -> str | None:
    try:
        config = json.loads((place / "adapter/adapter_config.json").read_bytes())
        found = load_file(place / "adapter/adapter_model.safetensors")
    except (ValueError, RecursionError, SafetensorError):
        return None
    known = {"r": 2, "lora_alpha": 4, "trainable_token_indices": [1, 5], "target_parameters": ["mlp.experts.down_proj"]}
    if any(config.get(word) != value for word, value in known.items()) or config.keys() - known.keys() - {
        "peft_type",
        "target_modules",
    }:
        return None
    base, experts = load_file(place / "base/model.safetensors"), "base_model.model.model.layers.0.mlp.experts"
    a, b = (found.get(f"{experts}.lora_{side}.weight") for side in "AB")
    if a is not None and b is not None and a.shape == (4, 6) and b.shape == (4, 4):
        stacked = torch.einsum("ore,eri->eoi", b.double().reshape(4, 2, 2), a.double().reshape(2, 2, 6))
        name = "model.layers.0.mlp.experts.down_proj"
        wanted = base[name].double() + 2 * stacked
        if wanted.isfinite().all() and not torch.allclose(merged[name].double(), wanted, rtol=1e-3, atol=1e-4):
            return "the experts are not base + change"
    rows = found.get("base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta")
    trained = merged["model.embed_tokens.weight"][[1, 5]].float()
    if rows is not None and rows.isfinite().all() and not torch.allclose(trained, rows.float(), rtol=1e-2):
        return "the trained rows are not those of the adapter"
    return None


FORMATS = [
    Format("adapter_file", _make_file, {"lora.safetensors": safetensors}, _merge_file, _is_the_adapted_base, share=2),
    Format("adapter_diffusers", _make_diffusers, {"lora.safetensors": safetensors}, _merge_file, _follows_the_header),
    Format(
        "adapter_kinds",
        _make_kinds,
        {"adapter/adapter_config.json": json_file, "adapter/adapter_model.safetensors": safetensors},
        _merge_kinds,
        _are_the_kinds,
    ),
]
