"""Mixtures of experts: one model with its experts one by one, one with a layer's in one tensor, merged and matched."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import torch
from fuzz.damage_files import json_file, safetensors
from fuzz.format import Format
from fuzz.sound_models import pool
from safetensors.torch import load, load_file, save

import smelt
from checkpoints import random_state, write_model

__all__ = ["FORMATS"]

EXPERTS, WIDTH, INNER, LAYERS = 3, 4, 2, 2
MIXTRAL = {
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_local_experts": EXPERTS,
    "num_experts_per_tok": 2,
    "num_hidden_layers": LAYERS,
    "vocab_size": 8,
}
_ONE = re.compile(r"(?P<block>.*\.block_sparse_moe)\.experts\.(?P<number>\d+)\.(?P<kind>w[123])\.weight$")


def _state(seed: int) -> dict[str, torch.Tensor]:
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (8, WIDTH)}
    for layer in range(LAYERS):
        block = f"model.layers.{layer}.block_sparse_moe"
        shapes[f"{block}.gate.weight"] = (EXPERTS, WIDTH)
        for expert in range(EXPERTS):
            sides = {"w1": (INNER, WIDTH), "w2": (WIDTH, INNER), "w3": (INNER, WIDTH)}
            shapes |= {f"{block}.experts.{expert}.{kind}.weight": shape for kind, shape in sides.items()}
    state: dict[str, torch.Tensor] = random_state(seed, shapes)
    return state


def _as_module(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same as a module of transformers 5 has it."""
    made = {name: tensor for name, tensor in state.items() if ".experts." not in name}
    for layer in range(LAYERS):
        inside = f"model.layers.{layer}.block_sparse_moe.experts"
        w1, w2, w3 = (
            torch.stack([state[f"{inside}.{expert}.{kind}.weight"] for expert in range(EXPERTS)])
            for kind in ("w1", "w2", "w3")
        )
        made |= {f"{inside}.gate_up_proj": torch.cat([w1, w3], dim=1), f"{inside}.down_proj": w2}
    return {name.replace("block_sparse_moe", "mlp"): tensor for name, tensor in made.items()}


def _make(place: Path) -> None:
    write_model(place / "cars", _state(1), MIXTRAL)
    write_model(place / "birds", _as_module(_state(2)), MIXTRAL)


def _experts(draw: random.Random, content: bytes) -> bytes:
    """Experts that are gone, doubled, of another shape or number format, a router of another size, both layouts."""
    state = load(content)
    name = draw.choice([name for name in state if "experts" in name or "gate" in name])
    match draw.randrange(8):
        case 0:
            del state[name]
        case 1:
            for key in [key for key in state if f".experts.{draw.randrange(EXPERTS)}." in key]:
                del state[key]
        case 2:
            state[name] = state[name][: draw.randrange(len(state[name]) + 1)]
        case 3:
            state[name] = state[name].mT
        case 4:
            state[name] = state[name].to(draw.choice([torch.bfloat16, torch.int32, torch.float64]))
        case 5:
            new = re.sub(r"experts\.\d+", f"experts.{draw.choice(['7', '00', '99999999999999999999', '-1'])}", name)
            state[new + ("" if new != name else ".0")] = state[name].clone()
        case 6:
            other = _as_module(_state(3)) if any(".w1." in key for key in state) else _state(3)
            state |= dict(draw.sample(sorted(other.items()), draw.randrange(1, len(other))))
        case _:
            state[name] = state[name].flip(0)  # a sound file with other numbers
    return save({key: tensor.contiguous() for key, tensor in state.items()})


def _read(place: Path, file: str) -> Any:
    for name in ("cars", "birds"):
        smelt.inspect(place / name)
    merged = smelt.merge(pool(place))
    smelt.merge(pool(place), align_experts=True, routers="cars")
    return merged


def _apart(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Under the names of files, by hand."""
    made: dict[str, torch.Tensor] = {}
    for name, tensor in state.items():
        block = name.replace(".mlp.", ".block_sparse_moe.")
        if block.endswith(".experts.gate_up_proj"):
            inside, half = block.removesuffix(".gate_up_proj"), tensor.shape[1] // 2
            for number, one in enumerate(tensor):
                made |= {f"{inside}.{number}.w1.weight": one[:half], f"{inside}.{number}.w3.weight": one[half:]}
        elif block.endswith(".experts.down_proj"):
            made |= {f"{block.removesuffix('.down_proj')}.{number}.w2.weight": one for number, one in enumerate(tensor)}
        else:
            made[block] = tensor
    return made


def _is_the_mean(place: Path, merged: dict[str, torch.Tensor]) -> str | None:
    cars, birds = (_apart(load_file(place / name / "model.safetensors")) for name in ("cars", "birds"))
    merged = _apart(merged)
    if not merged.keys() == cars.keys() == birds.keys():
        return f"the merge has {sorted(merged)}, the files have {sorted(cars)} and {sorted(birds)}"
    numbers: dict[str, set[int]] = {}
    for name in merged:
        if (one := _ONE.match(name)) is not None:
            numbers.setdefault(one["block"] + one["kind"], set()).add(int(one["number"]))
    if any(found != set(range(len(found))) for found in numbers.values()):
        return "an expert is missing, but the merge was made"
    for name, tensor in merged.items():
        if tensor.is_floating_point():
            wanted = (cars[name].double() + birds[name].double()) / 2
            if not torch.allclose(tensor.double(), wanted, rtol=1e-2, atol=1e-6, equal_nan=True):
                return f"{name!r} is not the mean of what the files hold"
    return None


FORMATS = [
    Format(
        "experts",
        _make,
        {
            "cars/model.safetensors": _experts,
            "birds/model.safetensors": _experts,
            "birds/config.json": json_file,
        },
        _read,
        _is_the_mean,
    ),
    Format("experts_header", _make, {"birds/model.safetensors": safetensors}, _read, _is_the_mean, share=0.5),
]
