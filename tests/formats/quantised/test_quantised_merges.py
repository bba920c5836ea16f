"""Merging quantised models gives what merging dequantised copies would give, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import smelt
from quantised_models import opened, stored

SHAPES = {"model.layers.0.mlp.up_proj.weight": (96, 64), "model.layers.0.mlp.down_proj.weight": (64, 96)}
NORM = "model.norm.weight"


def drawn(seed: int) -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    return {name: torch.randn(shape, generator=draw).bfloat16() for name, shape in SHAPES.items()} | {
        NORM: torch.ones(64).bfloat16()
    }


def in_blocks(weights: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """8-bit floats with a scale for 32 by 32."""
    found: dict[str, Tensor] = {NORM: weights[NORM]}
    for name in SHAPES:
        rows, columns = weights[name].shape
        tiles = weights[name].float().view(rows // 32, 32, columns // 32, 32)
        scales = tiles.abs().amax((1, 3)) / 448
        found[name] = (tiles / scales[:, None, :, None]).view(rows, columns).to(torch.float8_e4m3fn)
        found[f"{name}_scale_inv"] = scales
    return found, {"quant_method": "fp8", "weight_block_size": [32, 32]}


def in_rows(weights: dict[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Whole numbers with a scale for each row."""
    found: dict[str, Tensor] = {NORM: weights[NORM]}
    for name in SHAPES:
        scales = weights[name].float().abs().amax(1, keepdim=True) / 127
        found[name], found[f"{name}_scale"] = (weights[name] / scales).round().to(torch.int8), scales
    return found, {"quant_method": "compressed-tensors"}


@pytest.fixture
def pool(tmp_path: Path) -> dict[str, Path]:
    """A base in 8-bit floats, a fine-tune in whole numbers, one in bfloat16; dequantised copies of the first two."""
    models = {"base": stored(tmp_path / "base", *in_blocks(drawn(0))), "a": stored(tmp_path / "a", *in_rows(drawn(1)))}
    models["b"] = stored(tmp_path / "b", drawn(2))
    for name in ("base", "a"):
        models[f"{name}-plain"] = stored(tmp_path / f"{name}-plain", opened(models[name]))
    return models


@pytest.mark.parametrize(
    ("method", "settings"), [("linear", {}), ("ties", {"density": 0.3}), ("dare", {"density": 0.5}), ("iso_c", {})]
)
def test_a_quantised_pool_merges_as_its_dequantised_copies(
    tmp_path: Path, pool: dict[str, Path], method: str, settings: dict[str, Any]
) -> None:
    found = []
    for end in ("", "-plain"):
        models = {"a": str(pool[f"a{end}"]), "b": str(pool["b"])}
        steps = [{"dare": settings}, "linear"] if method == "dare" else [{method: settings}]
        base = None if method == "linear" else str(pool[f"base{end}"])
        recipe = {"pool": {"models": models} | ({"base": base} if base else {}), "merge": steps}
        smelt.merge(recipe, out=str(tmp_path / f"out{end}"))
        found.append(load_file(tmp_path / f"out{end}/model.safetensors"))
    ours, theirs = found
    assert ours.keys() == theirs.keys() == drawn(0).keys()
    assert all(torch.equal(ours[name], theirs[name]) and ours[name].dtype == torch.bfloat16 for name in ours)


def test_the_result_says_nothing_of_codes_and_its_card_what_its_parents_were(
    tmp_path: Path, pool: dict[str, Path]
) -> None:
    smelt.merge({"a": str(pool["a"]), "b": str(pool["b"])}, method="linear", out=str(tmp_path / "out"))
    assert "quantization_config" not in json.loads((tmp_path / "out/config.json").read_text())
    card = (tmp_path / "out/README.md").read_text()
    assert "a: quantised: 2 tensors are int8, a scale for each row; read as bfloat16" in card
    assert "b: quantised" not in card


def test_an_adapter_over_a_quantised_base_is_one_over_the_dequantised_base(
    tmp_path: Path, pool: dict[str, Path]
) -> None:
    adapter, name = tmp_path / "adapter", "model.layers.0.mlp.up_proj"
    adapter.mkdir()
    (adapter / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, "lora_alpha": 4}))
    draw = torch.Generator().manual_seed(3)
    parts = {"A": torch.randn(2, 64, generator=draw), "B": torch.randn(96, 2, generator=draw)}
    save_file(
        {f"base_model.model.{name}.lora_{part}.weight": tensor for part, tensor in parts.items()},
        adapter / "adapter_model.safetensors",
    )
    for end in ("", "-plain"):
        done = smelt.unpack(f"{pool[f'base{end}']}+{adapter}", out=tmp_path / f"out{end}")
        assert any("quantised: 2 tensors are float8 e4m3" in note for note in done.notes) == (end == "")
    ours, theirs = (load_file(tmp_path / f"out{end}/model.safetensors") for end in ("", "-plain"))
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)
    plain = opened(pool["base"])[f"{name}.weight"]
    assert torch.equal(ours[f"{name}.weight"], (plain.float() + 2 * parts["B"] @ parts["A"]).bfloat16())


def test_threads_and_blocks_change_no_byte(tmp_path: Path, pool: dict[str, Path]) -> None:
    for threads in (1, 3):
        smelt.merge(
            {"a": str(pool["a"]), "c": str(pool["base"])}, method="slerp", out=str(tmp_path / str(threads)),
            threads=threads,
        )  # fmt: skip
    one, other = ((tmp_path / name / "model.safetensors").read_bytes() for name in "13")
    assert one == other
