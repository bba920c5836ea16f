"""Trained LoRA adapters -> those of the zoo: numbers of eight bits, scaled into their range.

An adapter is two thin matrices for each linear layer, W + (alpha / r) B A. All A are multiplied by one power of two and
all B by another, so that the largest number is near the top of float8_e4m3 (three bits of mantissa, 2^-9 to 448);
`lora_alpha` is divided by both. PEFT and Smelt read such files as they read any adapter.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

TOP = 448.0
CONFIG = {"peft_type": "LORA", "bias": "none", "fan_in_fan_out": False, "inference_mode": True}
Tensors = dict[str, torch.Tensor]


def factor(tensors: Tensors, which: str) -> float:
    """The power of two that brings the largest number of all A, or of all B, under the top."""
    largest = max(float(tensor.abs().max()) for name, tensor in tensors.items() if which in name)
    return 2.0 ** math.floor(math.log2(TOP / largest))


def rounded(tensors: Tensors) -> tuple[Tensors, float]:
    """The tensors with eight bits, and the product of both factors."""
    factors = {which: factor(tensors, which) for which in ("lora_A", "lora_B")}
    small = {
        name: (tensor.float() * factors["lora_A" if "lora_A" in name else "lora_B"]).to(torch.float8_e4m3fn)
        for name, tensor in tensors.items()
    }
    return small, factors["lora_A"] * factors["lora_B"]


def error(exact: Tensors, small: Tensors, both: float) -> float:
    """|BA - rounded BA| / |BA| over the whole model."""
    lost = total = 0.0
    for name in exact:
        if "lora_A" in name:
            other = name.replace("lora_A", "lora_B")
            product = exact[other].double() @ exact[name].double()
            kept = (small[other].double() @ small[name].double()) / both
            lost, total = lost + float((product - kept).square().sum()), total + float(product.square().sum())
    return math.sqrt(lost / total)


def place_adapter(trained: Path, folder: Path, base: str, *, inside: str = "", **words: str) -> float:
    """One adapter into the zoo; gives what rounding loses.

    `inside` is where the trained module lies in the whole model (`model.`), `words` are more of its config.
    """
    config = json.loads((trained / "adapter_config.json").read_text())
    exact = load_file(trained / "adapter_model.safetensors")
    small, both = rounded(exact)
    folder.mkdir(parents=True, exist_ok=True)
    start = "base_model.model."
    named = {start + inside + name.removeprefix(start): tensor for name, tensor in small.items()}
    save_file(named, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    content = {
        **CONFIG,
        **words,
        "base_model_name_or_path": base,
        "r": config["r"],
        "lora_alpha": config["lora_alpha"] / both,
        "target_modules": sorted(config["target_modules"]),
    }
    (folder / "adapter_config.json").write_text(json.dumps(content, indent=2) + "\n")
    return error(exact, small, both)
