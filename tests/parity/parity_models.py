"""Small random Llama checkpoints: a base, three fine-tunes whose changes have the usual size, two that went far.

Every change of a model is exact in float32 and no two in a tensor have the same magnitude. So "the largest tenth" is
one set, in every program, and a difference between two programs is a difference in what they do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

LAYERS, HIDDEN, INNER, HEADS, KV_HEADS, VOCABULARY = 4, 64, 96, 4, 2, 80
WEIGHT_STEP, NORM_STEP = 2.0**-27, 2.0**-23
"""Weights below 1/8 and norms below 2 are multiples of these, so that sums and differences are exact."""

CHANGES = {"cars": 1e-3, "birds": 3e-3, "ships": 1e-2, "far": 0.5, "farther": 1.0}
"""Each model's change from the base, relative to the weights."""
USUAL, FAR = ("cars", "birds", "ships"), ("far", "farther", "ships")

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": HIDDEN,
    "intermediate_size": INNER,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "num_hidden_layers": LAYERS,
    "vocab_size": VOCABULARY,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
}


def shapes(rows: int = VOCABULARY, layers: int = LAYERS) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Every tensor of such a model."""
    yield "model.embed_tokens.weight", (rows, HIDDEN)
    narrow = HIDDEN * KV_HEADS // HEADS
    for n in range(layers):
        block = f"model.layers.{n}"
        yield f"{block}.input_layernorm.weight", (HIDDEN,)
        for name, out in (("q_proj", HIDDEN), ("k_proj", narrow), ("v_proj", narrow), ("o_proj", HIDDEN)):
            yield f"{block}.self_attn.{name}.weight", (out, HIDDEN)
        yield f"{block}.post_attention_layernorm.weight", (HIDDEN,)
        yield f"{block}.mlp.gate_proj.weight", (INNER, HIDDEN)
        yield f"{block}.mlp.up_proj.weight", (INNER, HIDDEN)
        yield f"{block}.mlp.down_proj.weight", (HIDDEN, INNER)
    yield "model.norm.weight", (HIDDEN,)
    yield "lm_head.weight", (rows, HIDDEN)


def base_state(rows: int = VOCABULARY, seed: int = 0) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    state = {}
    for name, shape in shapes(rows):
        noise = torch.randn(shape, generator=random, dtype=torch.float64)
        norm = "norm" in name
        weights = (1.25 + 0.05 * noise) if norm else (0.015 * noise).clamp(-0.055, 0.055)
        step = NORM_STEP if norm else WEIGHT_STEP
        state[name] = weights.div(step).round().mul(step).float()
    return state


def fine_tuned(base: dict[str, Tensor], change: float, seed: int) -> dict[str, Tensor]:
    """The base and a normal change of each tensor, all of whose magnitudes are different multiples of a step."""
    random = torch.Generator().manual_seed(1000 + seed)
    state = {}
    for name, weights in base.items():
        norm = "norm" in name
        step, size = (NORM_STEP, 0.05 * change) if norm else (WEIGHT_STEP, 0.015 * change)
        noise = torch.randn(weights.shape, generator=random, dtype=torch.float64)
        magnitude, order = (noise.abs() * size).div(step).round().flatten().sort()
        rank = torch.arange(1, len(magnitude) + 1, dtype=torch.float64)
        distinct = (magnitude - rank).cummax(0).values.clamp_min(0) + rank
        delta = torch.empty_like(distinct).scatter_(0, order, distinct).view_as(noise) * noise.sign() * step
        state[name] = (weights.double() + delta).float()
        assert torch.equal(state[name].double(), weights.double() + delta), f"{name}: a change is not exact"
    return state


def write_model(folder: Path, state: dict[str, Tensor], **config: object) -> Path:
    folder.mkdir(parents=True)
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    return folder


def write_models(root: Path) -> dict[str, Path]:
    """The pool on disk: `base`, a folder per name in CHANGES, some in bfloat16, some with few entries changed."""
    base = base_state()
    states = {"base": base} | {n: fine_tuned(base, c, seed) for seed, (n, c) in enumerate(CHANGES.items())}
    folders = {name: write_model(root / name, state) for name, state in states.items()}
    for name in ("base", "cars", "birds", "ships"):
        halved = {key: tensor.bfloat16() for key, tensor in states[name].items()}
        folders[f"half_{name}"] = write_model(root / f"half_{name}", halved, torch_dtype="bfloat16")
    for name in USUAL:
        folders[f"partly_{name}"] = write_model(root / f"partly_{name}", partly_changed(base, states[name]))
    return folders


def partly_changed(base: dict[str, Tensor], tuned: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same two fifths of every tensor changed in all models, the rest as in the base."""
    random = torch.Generator().manual_seed(7)
    return {
        name: torch.where(torch.rand(weights.shape, generator=random) < 0.4, tuned[name], weights)
        for name, weights in base.items()
    }
