"""Small checkpoints for tests, written to disk, and snapshots of folders to compare them byte by byte."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

CONFIG = {"model_type": "pico", "hidden_size": 4, "rope_theta": 10000.0}


def state(value: float = 0.0, layers: int = 2, dtype: torch.dtype = torch.float32) -> dict[str, torch.Tensor]:
    """A model of a few tensors, all of whose numbers are `value` plus the number of the tensor."""
    names = ["embed.weight", *(f"layers.{n}.{part}" for n in range(layers) for part in ("mlp.weight", "mlp.bias"))]
    shapes = {"weight": (4, 3), "bias": (4,)}
    names.append("head.weight")
    return {
        name: torch.full(shapes[name.rsplit(".", 1)[1]], value + number).to(dtype) for number, name in enumerate(names)
    }


def random_state(seed: int, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def write_model(
    folder: Path, tensors: Mapping[str, torch.Tensor], config: Mapping[str, Any] | None = CONFIG, **files: str
) -> Path:
    """A Hugging Face folder: model.safetensors, config.json, and other files as `name__ext="content"`."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    if config is not None:
        (folder / "config.json").write_text(json.dumps(config))
    for name, content in files.items():
        (folder / name.replace("__", ".")).write_text(content)
    return folder


def read_weights(folder: Path) -> dict[str, torch.Tensor]:
    """Every tensor of a model folder, whatever the number of its shards."""
    return {name: tensor for path in sorted(folder.glob("*.safetensors")) for name, tensor in load_file(path).items()}


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file under a folder by its relative path, hidden ones too."""
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def write_yaml(path: Path, content: Any) -> Path:
    """JSON is YAML: a recipe file."""
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path
