"""Ranks from a sample: the same cuts as without one, in fewer passes, and also where the sample misleads."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import smelt
from smelt.engine.run.cpu import backend
from smelt.engine.run.cpu.machine import library
from smelt.ops import bracket, order

pytestmark = pytest.mark.skipif(library() is None, reason="the vector machine was not compiled")

PIPELINES: list[Any] = [
    {"ties": {"density": 0.3}},
    {"ties": {"density": [0.9, 0.5, 0.01], "trim": "tensor"}},
    {"sce": {"density": 0.1}},
    [{"breadcrumbs": {"density": 0.8, "top": 0.01}}, "average"],
    [{"trim": {"density": 0.2, "rescale": "l1"}}, "average"],
    [{"dare": {"density": 0.5}}, {"ties": {"density": 0.2, "trim": "tensor"}}],
]


def models() -> list[dict[str, torch.Tensor]]:
    """A base and three fine-tunes in bfloat16, whose changes have few magnitudes; a third of them are zero."""
    draw = torch.Generator().manual_seed(1)
    shapes = {"a.weight": (60, 500), "b.weight": (20, 300), "c.bias": (40,)}
    base = {name: torch.randn(shape, generator=draw) * 0.05 for name, shape in shapes.items()}
    tunes = [base]
    for _ in range(3):
        kept = {name: torch.rand(tensor.shape, generator=draw) > 0.3 for name, tensor in base.items()}
        noise = {name: torch.randn(tensor.shape, generator=draw) * 0.002 for name, tensor in base.items()}
        tunes.append({name: tensor + noise[name] * kept[name] for name, tensor in base.items()})
    return [{name: tensor.bfloat16() for name, tensor in one.items()} for one in tunes]


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Small samples and many spans; what the passes of ranks were."""
    monkeypatch.setattr(bracket, "_SAMPLE", 512)
    for name, size in {"_SPAN": 4096, "_AT_ONCE": 1024, "_PIECE": 16}.items():
        monkeypatch.setattr(backend, name, size)
    seen: list[str] = []
    absorb = order.Largest.absorb

    def noted(self: order.Largest, total: Any) -> None:
        seen.append(self.step)
        absorb(self, total)

    monkeypatch.setattr(order.Largest, "absorb", noted)
    return seen


def both(monkeypatch: pytest.MonkeyPatch, merge: Any, threads: int = 2) -> tuple[Any, Any]:
    base, *tunes = models()
    named = {f"m{number}": state for number, state in enumerate(tunes)}
    fused = smelt.merge(named, base=base, method=merge, threads=threads)
    with monkeypatch.context() as patch:
        patch.setattr(backend, "library", lambda: None)
        return fused, smelt.merge(named, base=base, method=merge)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("merge", PIPELINES, ids=str)
def test_a_sample_changes_no_bit(monkeypatch: pytest.MonkeyPatch, steps: list[str], merge: Any, threads: int) -> None:
    fused, expected = both(monkeypatch, merge, threads)
    assert "bracket" in steps
    for name, tensor in expected.items():
        assert torch.equal(fused[name], tensor), name


def test_one_pass_over_everything_is_enough(monkeypatch: pytest.MonkeyPatch, steps: list[str]) -> None:
    base, *tunes = models()
    smelt.merge({f"m{number}": state for number, state in enumerate(tunes)}, base=base, method=PIPELINES[0])
    assert steps == ["sample", "bracket"]


@pytest.mark.parametrize("merge", PIPELINES, ids=str)
def test_a_sample_that_misleads_costs_passes_and_no_bit(
    monkeypatch: pytest.MonkeyPatch, steps: list[str], merge: Any
) -> None:
    monkeypatch.setattr(order, "bracket", lambda sample, rank: (1, 2))
    fused, expected = both(monkeypatch, merge)
    assert {"bracket", "coarse", "fine"} <= set(steps)
    for name, tensor in expected.items():
        assert torch.equal(fused[name], tensor), name


def test_what_is_not_finite_is_found_at_its_place_though_a_sample_met_it_first(steps: list[str]) -> None:
    base, *tunes = models()
    tunes[1]["a.weight"][7, 11] = float("nan")
    tunes[1]["a.weight"][0, 0] = float("inf")
    with pytest.raises(smelt.errors.NumericalError, match=r"inf.*element 0\b|element 0\b"):
        smelt.merge({f"m{number}": state for number, state in enumerate(tunes)}, base=base, method=PIPELINES[0])
