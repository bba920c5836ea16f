"""Small single files of diffusion models, under the names that ComfyUI and A1111 know."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from pipelines import make_pipeline
from smelt.formats.diffusion.unet_names import file_names

WIDTH, HEADS = 16, 2


def random_state(seed: int, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def write_file(path: Path, state: Mapping[str, torch.Tensor], **spec: str) -> Path:
    """One file; `spec` are words of ModelSpec."""
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(
        {n: t.contiguous() for n, t in state.items()}, path, {f"modelspec.{key}": word for key, word in spec.items()}
    )
    return path


def sd15_state(seed: int) -> tuple[dict[str, torch.Tensor], Any]:
    """A file with UNet, text encoder, some of a VAE and buffers; and the pipeline whose numbers it has."""
    pipeline = make_pipeline("sd15", seed)
    unet = pipeline.unet.state_dict()
    state = {f"model.diffusion_model.{name}": unet[own] for own, name in file_names(unet).items()}
    for name, tensor in pipeline.text_encoder.state_dict().items():
        state[f"cond_stage_model.transformer.text_model.{name.removeprefix('text_model.')}"] = tensor
    state["cond_stage_model.transformer.text_model.embeddings.position_ids"] = torch.arange(16).view(1, 16)
    state |= random_state(seed, {"first_stage_model.encoder.conv_in.weight": (8, 3, 3, 3), "betas": (10,)})
    return state, pipeline


def sdxl_state(seed: int) -> dict[str, torch.Tensor]:
    """UNet, and a few tensors of both text encoders and of the VAE."""
    unet = make_pipeline("sdxl", seed).unet.state_dict()
    state = {f"model.diffusion_model.{name}": unet[own] for own, name in file_names(unet).items()}
    shapes = {
        "conditioner.embedders.0.transformer.text_model.encoder.layers.0.mlp.fc1.weight": (16, 8),
        "conditioner.embedders.0.transformer.text_model.embeddings.token_embedding.weight": (54, 8),
        "conditioner.embedders.1.model.transformer.resblocks.0.attn.in_proj_weight": (24, 8),
        "conditioner.embedders.1.model.token_embedding.weight": (54, 8),
        "first_stage_model.decoder.conv_out.weight": (3, 8, 3, 3),
    }
    return state | random_state(seed, shapes)


def sd3_state(seed: int) -> dict[str, torch.Tensor]:
    """Two joint blocks, and a few tensors of the three text encoders and of the VAE."""
    shapes = {"model.diffusion_model.x_embedder.proj.weight": (8, 4, 2, 2)}
    for block in range(2):
        for side in ("context_block", "x_block"):
            shapes[f"model.diffusion_model.joint_blocks.{block}.{side}.attn.qkv.weight"] = (24, 8)
            shapes[f"model.diffusion_model.joint_blocks.{block}.{side}.adaLN_modulation.1.weight"] = (48, 8)
    shapes |= {
        "text_encoders.clip_l.transformer.text_model.encoder.layers.0.mlp.fc1.weight": (16, 8),
        "text_encoders.clip_g.transformer.text_model.encoder.layers.0.mlp.fc1.weight": (16, 8),
        "text_encoders.t5xxl.transformer.encoder.block.0.layer.0.SelfAttention.q.weight": (8, 8),
        "first_stage_model.decoder.conv_out.weight": (3, 8, 3, 3),
    }
    return random_state(seed, shapes)


def flux_state(seed: int, prefix: str = "", double: int = 2, single: int = 3) -> dict[str, torch.Tensor]:
    """The whole transformer, as large as that of the small pipeline."""
    inner, head = WIDTH, WIDTH // HEADS
    layers = {"img_in": (inner, 16), "txt_in": (inner, 8), "final_layer.linear": (16, inner)}
    layers["final_layer.adaLN_modulation.1"] = (2 * inner, inner)
    for name, width in {"time_in": 256, "vector_in": 8}.items():
        layers |= {f"{name}.in_layer": (inner, width), f"{name}.out_layer": (inner, inner)}
    shapes: dict[str, tuple[int, ...]] = {}
    for block in range(double):
        for side in ("img", "txt"):
            place = f"double_blocks.{block}.{side}"
            layers |= {
                f"{place}_attn.qkv": (3 * inner, inner),
                f"{place}_attn.proj": (inner, inner),
                f"{place}_mlp.0": (4 * inner, inner),
                f"{place}_mlp.2": (inner, 4 * inner),
                f"{place}_mod.lin": (6 * inner, inner),
            }
            shapes |= {f"{place}_attn.norm.{part}_norm.scale": (head,) for part in ("query", "key")}
    for block in range(single):
        place = f"single_blocks.{block}"
        layers |= {
            f"{place}.linear1": (7 * inner, inner),
            f"{place}.linear2": (inner, 5 * inner),
            f"{place}.modulation.lin": (3 * inner, inner),
        }
        shapes |= {f"{place}.norm.{part}_norm.scale": (head,) for part in ("query", "key")}
    for name, (rows, columns) in layers.items():
        shapes |= {f"{name}.weight": (rows, columns), f"{name}.bias": (rows,)}
    return {prefix + name: tensor for name, tensor in random_state(seed, shapes).items()}
