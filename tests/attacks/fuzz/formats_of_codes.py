"""Quantised weights of bitsandbytes, GPTQ and AWQ."""

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
from smelt.formats.quantised.code_tables import NIBBLES

__all__ = ["FORMATS"]

_AWQ_PLACES = [0, 4, 1, 5, 2, 6, 3, 7]
_STATE = {
    "quant_type": "nf4", "blocksize": 32, "dtype": "float32", "shape": [8, 15],
    "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.5,
}  # fmt: skip
_STORED = Mapping[str, Tensor]


def _codes(words: Tensor) -> Tensor:
    """Rows of words as rows of codes of four bits, from the lowest bits up."""
    return (words.unsqueeze(-1) >> torch.arange(0, 32, 4) & 15).flatten(-2)


def _nf4(stored: _STORED) -> Tensor:
    table, codes = torch.from_numpy(NIBBLES["nf4"]), stored["nf4.weight"].flatten().long()
    absmax = stored["nf4.weight.nested_quant_map"][stored["nf4.weight.absmax"].long()]
    absmax = absmax * stored["nf4.weight.nested_absmax"] + _STATE["nested_offset"]
    numbers = table[torch.stack([codes >> 4, codes & 15], -1).flatten()]
    return (numbers * absmax.repeat_interleave(32)[: len(numbers)]).view(8, 15)


def _int8(stored: _STORED) -> Tensor:
    return stored["int8.weight"].float() * stored["int8.SCB"][:, None] / 127


def _gptq(stored: _STORED) -> Tensor:
    codes, zeros = _codes(stored["layer.qweight"].T).T, _codes(stored["layer.qzeros"])
    groups = stored["layer.g_idx"].long()
    return ((codes - (zeros + 1 & 15)[groups]) * stored["layer.scales"].float()[groups]).T


def _awq(stored: _STORED) -> Tensor:
    codes, zeros = (
        _codes(stored[f"layer.{name}"]).unflatten(-1, (-1, 8))[..., _AWQ_PLACES].flatten(-2)
        for name in ("qweight", "qzeros")
    )
    return ((codes - zeros.repeat_interleave(8, 0)) * stored["layer.scales"].float().repeat_interleave(8, 0)).T


def _of_bitsandbytes() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)
    return {
        "nf4.weight": torch.randint(0, 256, (60, 1), dtype=torch.uint8, generator=draw),
        "nf4.weight.absmax": torch.randint(0, 256, (4,), dtype=torch.uint8, generator=draw),
        "nf4.weight.quant_map": torch.from_numpy(NIBBLES["nf4"]),
        "nf4.weight.nested_absmax": torch.tensor([0.25]),
        "nf4.weight.nested_quant_map": torch.linspace(-1, 1, 256),
        "nf4.weight.quant_state.bitsandbytes__nf4": torch.tensor(list(json.dumps(_STATE).encode()), dtype=torch.uint8),
        "int8.weight": torch.randint(-127, 128, (4, 6), dtype=torch.int8, generator=draw),
        "int8.SCB": torch.rand(4, generator=draw),
        "int8.weight_format": torch.tensor(0, dtype=torch.uint8),
        "norm.weight": torch.ones(4),
    }


def _of_layers(qweight: tuple[int, int]) -> dict[str, Tensor]:
    """16 inputs in two groups, 8 outputs."""
    draw = torch.Generator().manual_seed(0)

    def words(*shape: int) -> Tensor:
        return torch.randint(-(1 << 31), 1 << 31, shape, generator=draw).int()

    return {
        "layer.qweight": words(*qweight),
        "layer.qzeros": words(2, 1),
        "layer.scales": torch.rand(2, 8, generator=draw).half(),
        "norm.weight": torch.ones(4),
    }


def _of_gptq() -> dict[str, Tensor]:
    return _of_layers((2, 8)) | {"layer.g_idx": torch.tensor([1, 0] * 8, dtype=torch.int32)}


def _of_awq() -> dict[str, Tensor]:
    return _of_layers((16, 1))


def _format(
    name: str,
    said: dict[str, Any],
    sound: Callable[[], dict[str, Tensor]],
    read: dict[str, Callable[[_STORED], Tensor]],
) -> Format:
    """Codes beside numbers: a merge is the mean of the plain ones and of what the codes say."""
    config = {"model_type": "pico", "dtype": "float32", "quantization_config": said}
    weights = f"{name}/model.safetensors"

    def make(place: Path) -> None:
        stored = sound()
        write_model(place / name, stored, config)
        plain = {"norm.weight": stored["norm.weight"], **{key: by_hand(stored) for key, by_hand in read.items()}}
        write_model(place / "plain", plain, {"model_type": "pico", "dtype": "float32"})

    def merge(place: Path, file: str) -> Any:
        pool = {name: str(place / name), "plain": str(place / "plain")}
        smelt.inspect(place / name)
        smelt.plan(pool)
        return smelt.merge(pool)

    def wrong(place: Path, merged: dict[str, Tensor]) -> str | None:
        """Judged where the layout, the settings and what says how to read are as they were."""
        if (place / name / "config.json").read_text() != json.dumps(config):
            return None
        try:
            stored = load_file(place / weights)
        except SafetensorError:
            return None
        made = sound()
        if stored.keys() != made.keys() or any(
            stored[key].shape != one.shape or stored[key].dtype != one.dtype for key, one in made.items()
        ):
            return None
        if any(not torch.equal(stored[key], one) for key, one in made.items() if "quant_state" in key):
            return None
        plain = load_file(place / "plain/model.safetensors")
        for key, by_hand in read.items():
            wanted = (by_hand(stored).double() + plain[key].double()) / 2
            if not torch.allclose(merged[key].double(), wanted, rtol=1e-2, atol=1e-6):
                return f"{key!r} is not what its codes say"
        return None

    return Format(name, make, {weights: safetensors, f"{name}/config.json": json_file}, merge, wrong)


FORMATS = [
    _format(
        "bitsandbytes",
        {"quant_method": "bitsandbytes"},
        _of_bitsandbytes,
        {"nf4.weight": _nf4, "int8.weight": _int8},
    ),
    _format("gptq", {"quant_method": "gptq", "bits": 4, "group_size": 8}, _of_gptq, {"layer.weight": _gptq}),
    _format("awq", {"quant_method": "awq", "bits": 4, "group_size": 8}, _of_awq, {"layer.weight": _awq}),
]
