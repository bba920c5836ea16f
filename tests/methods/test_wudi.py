import pytest
import torch
from torch.testing import assert_close

from smelt.methods.subspace.wudi import wudi


def example(models: int = 3, rows: int = 3, columns: int = 4) -> torch.Tensor:
    return torch.randn(models, rows, columns, generator=torch.Generator().manual_seed(0))


def loss(merged: torch.Tensor, deltas: torch.Tensor) -> torch.Tensor:
    """As the paper writes it, from the interference of each model by itself."""
    disturbance = (merged - deltas) @ deltas.mT
    return (disturbance.square().sum((1, 2)) / deltas.square().sum((1, 2))).sum()


def gradient(merged: torch.Tensor, deltas: torch.Tensor) -> torch.Tensor:
    merged = merged.clone().requires_grad_()
    return torch.autograd.grad(loss(merged, deltas), merged)[0]


def largest_eigenvalue(deltas: torch.Tensor) -> float:
    return float(torch.linalg.eigvalsh(sum(d.mT @ d / d.square().sum() for d in deltas))[-1])


def test_two_numbers_by_hand():
    """d = 1 and 3: C = 2, B = 4, so D* = 2, D(0) = 4, and D = 2 + 2 e^(-time)."""
    deltas = torch.tensor([[[1.0]], [[3.0]]])
    for time, expected in ((1.0, 2 + 2 * 0.36787944), (2.0, 2 + 2 * 0.13533528), (100.0, 2.0)):
        assert_close(wudi(deltas, time=time), torch.tensor([[expected]]))


@pytest.mark.parametrize("time", [0.5, 3.0, 12.0])
@pytest.mark.parametrize("shape", [(3, 3, 4), (2, 1, 4), (2, 6, 2)])
def test_the_closed_form_is_gradient_descent_with_small_steps(time, shape):
    deltas = example(*shape).double()
    count = 4000
    step = time / largest_eigenvalue(deltas) / count
    merged = deltas.sum(0)
    for _ in range(count):
        merged = merged - step * gradient(merged, deltas) / 2
    assert_close(wudi(deltas.float(), time=time).double(), merged, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("shape", [(3, 3, 4), (2, 1, 4), (2, 6, 2)])
def test_with_time_the_gradient_vanishes(shape):
    deltas = example(*shape)
    assert gradient(deltas.sum(0), deltas).norm() > 1
    assert gradient(wudi(deltas, time=1e6), deltas).norm() < 1e-4


def test_the_loss_falls_with_time():
    deltas = example()
    losses = [float(loss(wudi(deltas, time=time), deltas)) for time in (1e-6, 1.0, 10.0, 100.0)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == pytest.approx(float(loss(deltas.sum(0), deltas)), rel=1e-4)


def test_models_on_different_inputs_are_added():
    deltas = torch.tensor([[[3.0, 0.0], [4.0, 0.0]], [[0.0, 5.0], [0.0, 1.0]]])
    assert_close(wudi(deltas), deltas.sum(0))


def test_copies_come_back_once_solved():
    delta = torch.diag(torch.tensor([2.0, 1.0]))
    assert_close(wudi(delta.repeat(3, 1, 1), time=1e3), delta)


def test_top_leaves_weak_directions_at_the_sum():
    """Two copies of diag(2, 1): the stronger direction is solved to 2, the weaker stays at 1 + 1."""
    delta = torch.diag(torch.tensor([2.0, 1.0]))
    assert_close(wudi(delta.repeat(2, 1, 1), time=1e3, top=0.5), torch.diag(torch.tensor([2.0, 2.0])))


def test_the_scale_of_the_changes_does_not_matter():
    assert_close(wudi(example() * 1e-4) * 1e4, wudi(example()), rtol=1e-4, atol=1e-5)


def test_adam_takes_the_steps_of_the_paper():
    deltas = example() * 1e-3
    reference = torch.nn.Parameter(deltas.sum(0))
    optimizer = torch.optim.Adam([reference], lr=1e-5)
    for _ in range(50):
        optimizer.zero_grad()
        loss(reference, deltas).backward()
        optimizer.step()
    merged = wudi(deltas, solver="adam", steps=50)
    assert_close(merged, reference.detach(), rtol=0, atol=1e-7)
    assert (merged - deltas.sum(0)).abs().max() > 3e-4


def test_adam_does_not_walk_on_rounding():
    delta = example(models=1, rows=5) * 1e-3
    assert_close(wudi(delta, solver="adam", steps=50), delta[0], rtol=1e-6, atol=0)


@pytest.mark.parametrize("solver", ["spectral", "adam"])
def test_zero_and_single_models(solver):
    assert torch.equal(wudi(torch.zeros(2, 3, 4), solver=solver), torch.zeros(3, 4))
    assert_close(wudi(example(models=1), solver=solver), example(models=1)[0])
    with_untouched = torch.cat([example(models=1), torch.zeros(1, 3, 4)])
    assert_close(wudi(with_untouched, solver=solver), example(models=1)[0])


def test_the_order_of_models_does_not_matter():
    deltas = example()
    before = deltas.clone()
    assert_close(wudi(deltas), wudi(deltas.flip(0)), rtol=1e-4, atol=1e-5)
    wudi(deltas, solver="adam", steps=3)
    assert torch.equal(deltas, before)
