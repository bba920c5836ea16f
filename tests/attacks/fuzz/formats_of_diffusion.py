"""Formats of diffusion models: folders of components, single files, block weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from fuzz.damage_files import json_file, safetensors, text
from fuzz.format import Format
from fuzz.formats_of_weights import tensors_of

import smelt
from made_up_diffusion import BLOCKS, write_folder, write_single_file

__all__ = ["FORMATS"]

_STEM = "diffusion_pytorch_model"
_NAMES = ("cars", "birds")


def _make_folders(place: Path) -> None:
    for seed, name in enumerate(_NAMES):
        write_folder(place / name, seed)


def _merge_folders(place: Path, file: str) -> Any:
    folders = [place / name for name in _NAMES]
    smelt.inspect(folders[1])
    smelt.plan(folders)
    smelt.merge(folders, method="average", out=place / "out", force=True)
    return smelt.verify(place / "out")


def _is_the_mean(place: Path, found: Any) -> str | None:
    """The UNet by hand, as far as both models have its tensors under the names that they came with."""
    if not found.ok:
        return f"the output does not verify: {found.faults}"
    merged, cars, birds = (_unet(place / name) for name in ("out", *_NAMES))
    for name, tensor in merged.items():
        if name not in cars or name not in birds:
            return f"{name!r} is merged, but not of both models"
        if not torch.allclose(tensor, (cars[name] + birds[name]) / 2, rtol=1e-2, atol=1e-5):
            return f"{name!r} is not the mean"
    return None


def _unet(folder: Path) -> dict[str, torch.Tensor]:
    return {n: t.float() for file in (folder / "unet").glob("*.safetensors") for n, t in tensors_of(file).items()}


def _make_files(place: Path) -> None:
    for seed, name in enumerate(_NAMES):
        write_single_file(place / f"{name}.safetensors", seed)


def _merge_files(place: Path, file: str) -> Any:
    files = [place / f"{name}.safetensors" for name in _NAMES]
    smelt.inspect(files[1])
    return smelt.merge(files, method="average", out=place / "out.safetensors", force=True)


def _is_one_mean(place: Path, found: Any) -> str | None:
    merged, cars, birds = (tensors_of(place / f"{name}.safetensors") for name in ("out", *_NAMES))
    for name, tensor in merged.items():
        if name.startswith("model.diffusion_model.") and tensor.is_floating_point():
            wanted = (cars[name].double() + birds[name].double()) / 2
            if not torch.allclose(tensor.double(), wanted, rtol=1e-2, atol=1e-5):
                return f"{name!r} is not the mean"
    return None


def _make_block_weights(place: Path) -> None:
    _make_files(place)
    numbers = [0.5] * (2 * BLOCKS + 2)
    recipe = {
        "pool": {"base": "cars.safetensors", "models": {"birds": "birds.safetensors"}},
        "merge": {"task_arithmetic": {"scale": {"blocks": ", ".join(map(str, numbers))}}},
    }
    (place / "recipe.yaml").write_text(json.dumps(recipe))


def _merge_blocks(place: Path, file: str) -> Any:
    smelt.plan(place / "recipe.yaml")
    return smelt.merge(place / "recipe.yaml")


FORMATS = [
    Format(
        "diffusers",
        _make_folders,
        {
            "birds/model_index.json": json_file,
            "birds/unet/config.json": json_file,
            "birds/vae/config.json": json_file,
            f"birds/unet/{_STEM}.safetensors.index.json": json_file,
            f"birds/unet/{_STEM}-00001-of-00002.safetensors": safetensors,
            "birds/text_encoder/model.safetensors": safetensors,
            "cars/model_index.json": json_file,
        },
        _merge_folders,
        _is_the_mean,
        share=2,
    ),
    Format("diffusion_file", _make_files, {"birds.safetensors": safetensors, "cars.safetensors": safetensors},
           _merge_files, _is_one_mean),
    Format("block_weights", _make_block_weights, {"recipe.yaml": text}, _merge_blocks),
]  # fmt: skip
