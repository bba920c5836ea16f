from __future__ import annotations

import pytest
import torch

from smelt.mixing import mixed_linear as linear
from smelt.mixing.mixed_linear import mixed_linear


def test_each_sample_has_its_own_weight() -> None:
    """2 · (1 + 0.5 · 10 + 0.1 · 100) = 32, and 3 · (1 + 0 · 10 + 1 · 100) = 303."""
    x = torch.tensor([[[2.0]], [[3.0]]])
    gates = torch.tensor([[0.5, 0.1], [0.0, 1.0]])
    deltas = torch.tensor([[[10.0]], [[100.0]]])
    assert mixed_linear(x, gates, torch.ones(1, 1), deltas).flatten().tolist() == [32.0, 303.0]


def _random(samples: int = 19, tokens: int = 5, experts: int = 3, rows: int = 23, width: int = 7) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [
        torch.randn(samples, tokens, width, dtype=torch.float64),
        torch.randn(samples, experts, dtype=torch.float64),
        torch.randn(rows, width, dtype=torch.float64),
        torch.randn(experts, rows, width, dtype=torch.float64),
    ]


def _plain(x: torch.Tensor, gates: torch.Tensor, weight: torch.Tensor, deltas: torch.Tensor) -> torch.Tensor:
    return torch.einsum("sti,soi->sto", x, weight + torch.einsum("se,eoi->soi", gates, deltas))


@pytest.mark.parametrize("cache", [1, 1000, 1 << 20])
@pytest.mark.parametrize("samples", [1, 8, 100])
def test_blocks_of_rows_and_samples_do_not_show(cache: int, samples: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "_CACHE", cache)
    monkeypatch.setattr(linear, "_SAMPLES", samples)
    given = _random()
    torch.testing.assert_close(mixed_linear(*given), _plain(*given))


def test_gradients_of_inputs_and_gates_are_those_of_the_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "_CACHE", 400)
    monkeypatch.setattr(linear, "_SAMPLES", 4)
    x, gates, weight, deltas = _random(samples=6, rows=5, width=4)
    found, wanted = [], []
    for function, grads in ((mixed_linear, found), (_plain, wanted)):
        leaves = [x.clone().requires_grad_(), gates.clone().requires_grad_()]
        y = function(*leaves, weight, deltas)
        grads += torch.autograd.grad((y * y.detach().cos()).sum(), leaves)
    torch.testing.assert_close(found, wanted)


def test_gradients_of_gates_alone_need_none_of_the_inputs() -> None:
    x, gates, weight, deltas = _random(samples=2)
    (grad,) = torch.autograd.grad(mixed_linear(x, gates.requires_grad_(), weight, deltas).sum(), [gates])
    wanted = torch.einsum("sti,eoi->se", x, deltas)
    torch.testing.assert_close(grad, wanted)


def test_changes_may_be_kept_in_a_narrower_format() -> None:
    x, gates, weight, deltas = _random()
    narrow = deltas.to(torch.bfloat16)
    torch.testing.assert_close(
        mixed_linear(x, gates, weight, narrow), _plain(x, gates, weight, narrow.double()), rtol=1e-12, atol=1e-12
    )
