"""Trained adapters -> the zoo's: numbers of eight bits, scaled into their range, with what the rounding costs.

    python zoo/build/language/adapters.py --trained FOLDER

An adapter is two thin matrices for each linear layer, W + (alpha / r) B A. All A are multiplied by one power of two and
all B by another, so that the largest number is near the top of float8_e4m3 (three bits of mantissa, 2^-9 to 448);
`lora_alpha` is divided by both. PEFT and Smelt read such files as they read any adapter.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from train import DOMAINS, MULTITASK

HERE = Path(__file__).resolve().parent
MODELS = HERE.parents[1] / "src" / "smelt_zoo" / "models"
RECORDS = HERE.parent / "records"
BASE = "zoo:smollm2-135m-instruct"
TOP = 448.0
CONFIG = {
    "peft_type": "LORA",
    "task_type": "CAUSAL_LM",
    "bias": "none",
    "fan_in_fan_out": False,
    "inference_mode": True,
}


def factor(tensors: dict[str, torch.Tensor], which: str) -> float:
    """The power of two that brings the largest number of all A, or of all B, under the top."""
    largest = max(float(tensor.abs().max()) for name, tensor in tensors.items() if which in name)
    return 2.0 ** math.floor(math.log2(TOP / largest))


def rounded(tensors: dict[str, torch.Tensor]) -> tuple[dict[str, torch.Tensor], float]:
    """The tensors with eight bits, and the product of both factors."""
    factors = {which: factor(tensors, which) for which in ("lora_A", "lora_B")}
    small = {
        name: (tensor.float() * factors["lora_A" if "lora_A" in name else "lora_B"]).to(torch.float8_e4m3fn)
        for name, tensor in tensors.items()
    }
    return small, factors["lora_A"] * factors["lora_B"]


def error(exact: dict[str, torch.Tensor], small: dict[str, torch.Tensor], both: float) -> float:
    """|BA - rounded BA| / |BA| over the whole model."""
    lost = total = 0.0
    for name in exact:
        if "lora_A" in name:
            other = name.replace("lora_A", "lora_B")
            product = exact[other].double() @ exact[name].double()
            kept = (small[other].double() @ small[name].double()) / both
            lost, total = lost + float((product - kept).square().sum()), total + float(product.square().sum())
    return math.sqrt(lost / total)


def place(trained: Path, name: str) -> dict:
    """One adapter into the zoo; gives its record."""
    config = json.loads((trained / "adapter_config.json").read_text())
    exact = load_file(trained / "adapter_model.safetensors")
    small, both = rounded(exact)
    folder = MODELS / f"llm5-{name}"
    folder.mkdir(parents=True, exist_ok=True)
    save_file(small, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    content = {
        **CONFIG,
        "base_model_name_or_path": BASE,
        "r": config["r"],
        "lora_alpha": config["lora_alpha"] / both,
        "target_modules": sorted(config["target_modules"]),
    }
    (folder / "adapter_config.json").write_text(json.dumps(content, indent=2) + "\n")
    record = json.loads((trained / "training.json").read_text())
    record["rounding"] = {"format": "float8_e4m3", "relative_error": round(error(exact, small, both), 4)}
    return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trained", type=Path, required=True)
    words = parser.parse_args()
    for name in (*DOMAINS, MULTITASK):
        record = place(words.trained / name, name)
        (RECORDS / f"llm5-{name}.json").write_text(json.dumps(record, indent=1) + "\n")
        print(f"llm5-{name}: rank {record['rank']}, rounding loses {100 * record['rounding']['relative_error']:.1f} %")


if __name__ == "__main__":
    main()
