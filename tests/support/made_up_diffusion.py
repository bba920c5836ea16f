"""Diffusion models of a few numbers, without diffusers: an SD1.5 of full depth, and a folder of several components."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

from checkpoints import random_state

BLOCKS = 12
"""Of the UNet of SD1.5, on the way down and on the way up."""


def single_file(seed: int) -> dict[str, torch.Tensor]:
    """One tensor for every block of a UNet, and a little of text encoder and VAE."""
    net = "model.diffusion_model."
    shapes = {f"{net}{way}_blocks.{n}.0.weight": (4, 4) for way in ("input", "output") for n in range(BLOCKS)}
    shapes |= {f"{net}middle_block.0.weight": (4, 4), f"{net}out.0.weight": (4,), f"{net}time_embed.0.weight": (4, 4)}
    shapes |= {"cond_stage_model.transformer.text_model.encoder.layers.0.mlp.fc1.weight": (4, 4)}
    shapes |= {"first_stage_model.encoder.conv_in.weight": (4, 3, 3, 3)}
    return random_state(seed, shapes)


def write_single_file(path: Path, seed: int) -> Path:
    save_file(single_file(seed), path, {"modelspec.architecture": "stable-diffusion-v1", "modelspec.title": path.stem})
    return path


def write_folder(folder: Path, seed: int) -> Path:
    """A pipeline of a UNet in two shards, a text encoder, a VAE and a scheduler."""
    index = {"_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.42.0", "safety_checker": [None, None]}
    index |= {"unet": ["diffusers", "UNet2DConditionModel"], "vae": ["diffusers", "AutoencoderKL"]}
    index |= {"text_encoder": ["transformers", "CLIPTextModel"], "scheduler": ["diffusers", "DDIMScheduler"]}
    unet = random_state(seed, {"conv_in.weight": (4, 4, 3, 3), "down_blocks.0.resnets.0.conv1.weight": (4, 4, 3, 3)})
    stem = "diffusion_pytorch_model"
    names = {key: f"{stem}-{number:05d}-of-00002.safetensors" for number, key in enumerate(unet, 1)}
    files = {
        "model_index.json": index,
        "unet/config.json": {"_class_name": "UNet2DConditionModel", "block_out_channels": [4]},
        "vae/config.json": {"_class_name": "AutoencoderKL", "latent_channels": 4},
        "text_encoder/config.json": {"model_type": "clip_text_model", "hidden_size": 4, "dtype": "float32"},
        "scheduler/scheduler_config.json": {"_class_name": "DDIMScheduler"},
        f"unet/{stem}.safetensors.index.json": {"metadata": {"total_size": 1}, "weight_map": names},
    }
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(json.dumps(content))
    for key, name in names.items():
        save_file({key: unet[key]}, folder / "unet" / name)
    save_file(random_state(seed, {"encoder.conv_in.weight": (4, 3, 3, 3)}), folder / "vae" / f"{stem}.safetensors")
    text = random_state(seed, {"text_model.final_layer_norm.weight": (4,)})
    save_file(text, folder / "text_encoder" / "model.safetensors")
    return folder
