"""The models that docs/how-to/adapters.md names: a tiny SDXL as a folder, a tiny Flux as a file, adapters over them."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

__all__ = ["write_adapted_models"]

_BLOCK = "down_blocks.1.attentions.0.transformer_blocks.0.attn2"


def write_adapted_models(room: Path) -> None:
    draw = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=draw) / 8

    folder = room / "sdxl-base"
    (folder / "unet").mkdir(parents=True)
    index = {"_class_name": "StableDiffusionXLPipeline", "unet": ["diffusers", "UNet2DConditionModel"]}
    (folder / "model_index.json").write_text(json.dumps(index))
    (folder / "unet" / "config.json").write_text(json.dumps({"_class_name": "UNet2DConditionModel"}))
    layers = {f"{_BLOCK}.to_q": (8, 8), f"{_BLOCK}.to_k": (8, 16), "down_blocks.1.resnets.0.conv1": (8, 4, 3, 3)}
    state = {f"{name}.weight": random(*shape) for name, shape in layers.items()}
    save_file(state | {"conv_in.weight": random(4, 4, 3, 3)}, folder / "unet" / "diffusion_pytorch_model.safetensors")
    for name, rank in (("style", 4), ("face", 2)):
        adapter = {}
        for module, (rows, inputs, *kernel) in layers.items():
            key = f"lora_unet_{module.replace('.', '_')}"
            adapter[f"{key}.lora_down.weight"] = random(rank, inputs, *kernel)
            adapter[f"{key}.lora_up.weight"] = random(rows, rank, *(1 for _ in kernel))
            adapter[f"{key}.alpha"] = torch.tensor(float(rank))
        save_file(adapter, room / f"{name}.safetensors")
    blocks = "double_blocks.0.img_attn"
    save_file(
        {f"{blocks}.qkv.weight": random(24, 8), f"{blocks}.proj.weight": random(8, 8)}, room / "flux-base.safetensors"
    )
    query = "transformer.transformer_blocks.0.attn.to_q"
    save_file(
        {f"{query}.lora_A.weight": random(2, 8), f"{query}.lora_B.weight": random(8, 2)},
        room / "flux-style.safetensors",
    )
