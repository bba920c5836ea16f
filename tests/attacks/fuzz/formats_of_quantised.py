"""Quantised weights: 8-bit floats in blocks, whole numbers in words, 4-bit floats in groups."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from fuzz.damage_files import json_file, safetensors
from fuzz.format import Format
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

import smelt
from checkpoints import write_model

__all__ = ["FORMATS"]

_CONFIG = {
    "model_type": "pico",
    "dtype": "float32",
    "quantization_config": {"quant_method": "compressed-tensors", "weight_block_size": [4, 4]},
}
WEIGHTS = "quantised/model.safetensors"
_E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def _halves(codes: Tensor) -> Tensor:
    """Two codes of each byte, the lower half first."""
    return torch.stack([codes & 15, codes >> 4], dim=-1).flatten(-2).long()


def _blocks(stored: Mapping[str, Tensor]) -> Tensor:
    scales = stored["fp8.weight_scale_inv"].repeat_interleave(4, 0).repeat_interleave(4, 1)
    return stored["fp8.weight"].float() * scales


def _rows(stored: Mapping[str, Tensor]) -> Tensor:
    return stored["int8.weight"].float() * stored["int8.weight_scale"].float()


def _words(stored: Mapping[str, Tensor]) -> Tensor:
    codes = _halves(stored["int4.weight_packed"].view(torch.uint8)).float() - 8
    zeros = _halves(stored["int4.weight_zero_point"].flatten().view(torch.uint8).view(2, 4)).float().T - 8
    return (codes - zeros.repeat_interleave(8, 1)) * stored["int4.weight_scale"].repeat_interleave(8, 1)


def _groups(stored: Mapping[str, Tensor]) -> Tensor:
    scales = stored["nvfp4.weight_scale"].float() / stored["nvfp4.weight_global_scale"]
    return _E2M1[_halves(stored["nvfp4.weight_packed"])] * scales.repeat_interleave(16, 1)


def _experts(stored: Mapping[str, Tensor]) -> Tensor:
    numbers = _E2M1[_halves(stored["up_blocks"])] * torch.exp2(stored["up_scales"].float() - 127).unsqueeze(-1)
    return numbers.flatten(-2).transpose(1, 2)


_READ: dict[str, Callable[[Mapping[str, Tensor]], Tensor]] = {
    "fp8.weight": _blocks,
    "int8.weight": _rows,
    "int4.weight": _words,
    "nvfp4.weight": _groups,
    "up": _experts,
}
"""What each tensor stands for, by hand."""


def _stored() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)

    def codes(*shape: int) -> Tensor:
        return torch.randint(0, 256, shape, dtype=torch.uint8, generator=draw)

    return {
        "fp8.weight": torch.randn(8, 8, generator=draw).to(torch.float8_e4m3fn),
        "fp8.weight_scale_inv": torch.rand(2, 2, generator=draw),
        "int8.weight": codes(4, 6).view(torch.int8),
        "int8.weight_scale": torch.rand(4, 1, generator=draw).bfloat16(),
        "int4.weight_packed": codes(8, 8).view(torch.int32),
        "int4.weight_scale": torch.rand(8, 2, generator=draw),
        "int4.weight_zero_point": codes(1, 8).view(torch.int32),
        "int4.weight_shape": torch.tensor([8, 16]),
        "nvfp4.weight_packed": codes(4, 16),
        "nvfp4.weight_scale": torch.rand(4, 2, generator=draw).to(torch.float8_e4m3fn),
        "nvfp4.weight_global_scale": torch.tensor([2.0]),
        "up_blocks": codes(2, 3, 1, 16),
        "up_scales": torch.randint(120, 130, (2, 3, 1), dtype=torch.uint8, generator=draw),
        "norm.weight": torch.ones(4),
    }


def _make(place: Path) -> None:
    stored = _stored()
    write_model(place / "quantised", stored, _CONFIG)
    plain = {"norm.weight": stored["norm.weight"], **{name: read(stored) for name, read in _READ.items()}}
    write_model(place / "plain", plain, {"model_type": "pico", "dtype": "float32"})


def _merge(place: Path, file: str) -> Any:
    pool = {"quantised": str(place / "quantised"), "plain": str(place / "plain")}
    smelt.inspect(place / "quantised")
    smelt.plan(pool)
    return smelt.merge(pool)


def _is_what_the_codes_say(place: Path, merged: dict[str, Tensor]) -> str | None:
    """Where layout and config are sound, each tensor is the mean of the plain one and what its codes say."""
    if (place / "quantised/config.json").read_text() != json.dumps(_CONFIG):
        return None  # blocks may then have another size
    try:
        stored = load_file(place / WEIGHTS)
    except SafetensorError:
        return None
    sound = _stored()
    if stored.keys() != sound.keys() or any(
        stored[name].shape != tensor.shape or stored[name].dtype != tensor.dtype for name, tensor in sound.items()
    ):
        return None
    plain = load_file(place / "plain/model.safetensors")
    for name, read in _READ.items():
        wanted = (read(stored).double() + plain[name].double()) / 2
        if not torch.allclose(merged[name].double(), wanted, rtol=1e-2, atol=1e-6):
            return f"{name!r} is not what its codes say"
    return None


FORMATS = [
    Format(
        "quantised",
        _make,
        {WEIGHTS: safetensors, "quantised/config.json": json_file},
        _merge,
        _is_what_the_codes_say,
        share=3,
    )
]
