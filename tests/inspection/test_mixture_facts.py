"""`smelt inspect` of a mixture of experts."""

from __future__ import annotations

from pathlib import Path

import pytest

import smelt
from tiny_experts import made, saved, saved_as_module


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("Mixtral", "4 in each of 2 layers, 2 per token; 2,304 parameters, 2 tensors of routers"),
        ("Qwen2Moe", "4 in each of 2 layers, 2 per token, 1 shared; 1,536 parameters, 2 tensors of routers"),
        ("DeepseekV3", "4 in one layer, 2 per token, 1 shared; 768 parameters, 2 tensors of routers"),
        ("GptOss", "4 in each of 2 layers, 2 per token; 2,560 parameters, 4 tensors of routers"),
        ("GraniteMoe", "4 in each of 2 layers, 2 per token; 2,304 parameters, 2 tensors of routers"),
    ],
)
def test_experts_are_counted(tmp_path: Path, kind: str, said: str) -> None:
    """Mixtral by hand: 2 layers of 4 experts of 3 matrices of 8 by 12 numbers."""
    assert str(smelt.inspect(saved(made(kind, 1), tmp_path / kind)).mixture) == said


def test_both_layouts_are_told_apart_and_counted_alike(tmp_path: Path) -> None:
    model = made("Mixtral", 1)
    one, other = smelt.inspect(saved(model, tmp_path / "a")), smelt.inspect(saved_as_module(model, tmp_path / "b"))
    assert one.mixture == other.mixture
    assert one.parameters == other.parameters
    assert not one.notes
    assert other.notes == ("the experts of a layer lie in one tensor; they are read one by one",)


def test_dense_models_have_none() -> None:
    import torch

    assert smelt.inspect({"layers.0.mlp.gate_proj.weight": torch.ones(2, 2)}).mixture is None
