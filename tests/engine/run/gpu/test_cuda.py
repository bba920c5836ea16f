"""`--device cuda` runs the same functions; these tests need a GPU and say so where there is none."""

from __future__ import annotations

import pytest
import torch

import smelt
from smelt.engine.run.gpu import kernel
from smelt.methods import stages
from smelt.testing import Pico
from smelt.testing.trial import statistics_for

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="NOT TESTED HERE: no CUDA device")


def _model(seed: int, base: dict[str, torch.Tensor] | None = None) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {"embed_tokens.weight": (50, 32), "layers.0.w": (64, 32), "layers.1.w": (32, 64), "norm.bias": (32,)}
    noise = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return noise if base is None else {name: base[name] + 0.01 * noise[name] for name in noise}


BASE = _model(0)
MODELS = {f"m{seed}": _model(seed, BASE) for seed in (1, 2, 3)}


@pytest.mark.parametrize("kernels", ["0", "1"])
@pytest.mark.parametrize("name", sorted(stages))
def test_every_stage_gives_the_same_numbers_on_both_devices(
    monkeypatch: pytest.MonkeyPatch, name: str, kernels: str
) -> None:
    monkeypatch.setenv("SMELT_KERNELS", kernels)
    kernel.refused.clear()
    stage = stages[name]
    models = dict(list(MODELS.items())[: stage.models[1] or 3])
    example = {"t": 0.01} if name == "nearswap" else {}
    method = {
        "method": [(name, example)],
        "step": [name, "task_arithmetic"],
        "basis": [name, "task_arithmetic"],
        "wrapper": ["task_arithmetic", name],
    }[stage.kind]
    words = statistics_for(stage, Pico(BASE, models))
    on_cpu = smelt.merge(models, base=BASE, method=method, **words)
    on_gpu = smelt.merge(models, base=BASE, method=method, device="cuda", **words)
    for key in BASE:
        torch.testing.assert_close(on_gpu[key], on_cpu[key], rtol=1e-4, atol=2e-5)
    assert not kernel.refused


def test_a_merge_leaves_nothing_on_the_device() -> None:
    smelt.merge(MODELS, base=BASE, method="task_arithmetic", device="cuda")
    before = torch.cuda.memory_allocated()
    smelt.merge(MODELS, base=BASE, method="task_arithmetic", device="cuda")
    assert torch.cuda.memory_allocated() == before


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(smelt.RecipeError, match="device"):
        smelt.merge(MODELS, method="average", device="tpu")
