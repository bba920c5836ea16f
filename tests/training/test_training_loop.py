"""The one training loop: steps by the formula, parts of a batch, hooks, and a stopped run that goes on."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from smelt.errors import NumericalError, OutputError
from smelt.training.loop import Hooks, steps_done, train


class Parabola(nn.Module):
    """loss = share * (w - target)² / 2, of which the gradient is share * (w - target)."""

    def __init__(self, start: float = 3.0):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([start]))

    def forward(self, target: float, share: float = 1.0) -> Tensor:
        return share * (self.w - target).square().sum() / 2


def at_zero(step: int) -> list[dict[str, Any]]:
    return [{"target": 0.0}]


def test_a_step_of_gradient_descent_is_the_formula() -> None:
    model = Parabola(3.0)
    losses = train(model, at_zero, torch.optim.SGD(model.parameters()), steps=2, rate=lambda step: 0.1)
    assert model.w.item() == pytest.approx(3 * 0.9 * 0.9)
    assert losses == pytest.approx([4.5, 2.7**2 / 2])


def test_a_first_step_of_adam_moves_by_the_rate() -> None:
    """m̂ = g and v̂ = g² after one step, so that p moves by lr g / (|g| + eps)."""
    model = Parabola(3.0)
    train(model, at_zero, torch.optim.Adam(model.parameters()), steps=1, rate=lambda step: 0.25)
    assert model.w.item() == pytest.approx(2.75)


def test_the_rate_is_that_of_the_step_from_nought_on() -> None:
    model = Parabola(1.0)
    train(model, at_zero, torch.optim.SGD(model.parameters()), steps=2, rate=lambda step: (0.5, 0.1)[step])
    assert model.w.item() == pytest.approx(1.0 * 0.5 * 0.9)


def test_parts_of_a_batch_add_up_and_are_not_divided_again() -> None:
    """Shares of 1/4 and 3/4 of the same parabola are the whole one."""
    whole, parted = Parabola(3.0), Parabola(3.0)
    train(whole, at_zero, torch.optim.SGD(whole.parameters()), steps=1, rate=lambda step: 0.1)
    parts = [{"target": 0.0, "share": 0.25}, {"target": 0.0, "share": 0.75}]
    losses = train(
        parted, lambda step: parts, torch.optim.SGD(parted.parameters()), steps=1, rate=lambda step: 0.1, parts=2
    )
    assert parted.w.item() == pytest.approx(whole.w.item()) == pytest.approx(2.7)
    assert losses == pytest.approx([4.5])


def test_a_gradient_is_clipped_to_a_norm() -> None:
    model = Parabola(3.0)
    train(model, at_zero, torch.optim.SGD(model.parameters()), steps=1, rate=lambda step: 0.1, clip=1.0)
    assert model.w.item() == pytest.approx(2.9, abs=1e-5)


def test_hooks_see_the_weights_before_and_after_the_update() -> None:
    seen: list[tuple[str, float]] = []
    model = Parabola(3.0)

    class Seeing(Hooks):
        def before_step(self, step: int) -> None:
            seen.append(("before", model.w.item()))

        def before_update(self, step: int) -> None:
            assert model.w.grad is not None
            seen.append(("gradient", model.w.grad.item()))

        def after_step(self, step: int, loss: float) -> bool:
            seen.append(("after", round(model.w.item(), 4)))
            return False

    train(model, at_zero, torch.optim.SGD(model.parameters()), steps=1, rate=lambda step: 0.1, hooks=Seeing())
    assert seen == [("before", 3.0), ("gradient", 3.0), ("after", 2.7)]


def test_a_hook_ends_the_training() -> None:
    class Ending(Hooks):
        def after_step(self, step: int, loss: float) -> bool:
            return step == 1

    model = Parabola()
    sgd = torch.optim.SGD(model.parameters())
    assert len(train(model, at_zero, sgd, steps=9, rate=lambda step: 0.1, hooks=Ending())) == 2


def test_a_loss_that_is_no_number_stops_the_run_and_names_the_step() -> None:
    model = Parabola()
    batches = lambda step: [{"target": math.nan if step == 2 else 0.0}]  # noqa: E731
    with pytest.raises(NumericalError, match="step 2: the loss is nan"):
        train(model, batches, torch.optim.SGD(model.parameters()), steps=5, rate=lambda step: 0.1)


def test_whoever_calls_keeps_their_random_numbers() -> None:
    torch.manual_seed(7)
    expected = torch.rand(1)
    torch.manual_seed(7)
    model = Parabola()
    train(model, at_zero, torch.optim.SGD(model.parameters()), steps=1, rate=lambda step: 0.1, seed=3)
    assert torch.equal(torch.rand(1), expected)


class Noisy(nn.Module):
    """A network with dropout and a batch norm: random numbers and statistics have to be taken up too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.frozen = nn.Linear(4, 4).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).square().mean()


def some(step: int) -> list[dict[str, Tensor]]:
    return [{"x": torch.randn(6, 4, generator=torch.Generator().manual_seed(step))}]


def trained(folder: Path | None, hooks: Hooks | None = None) -> tuple[dict[str, Tensor], list[float]]:
    model = Noisy()
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], weight_decay=0.1)
    losses = train(
        model, some, optimiser, steps=7, rate=lambda step: 0.1 / (1 + step), folder=folder, save_every=2, hooks=hooks
    )
    return model.state_dict(), losses


class Killed(Exception):
    """A process that ends in the middle of a step."""


@pytest.mark.parametrize("way", ["killed", "Ctrl-C"])
def test_a_stopped_run_goes_on_and_ends_with_the_same_bytes(tmp_path: Path, way: str) -> None:
    class Stopping(Hooks):
        def before_update(self, step: int) -> None:
            if step == 4 and way == "killed":
                raise Killed
            if step == 4:
                os.kill(os.getpid(), signal.SIGINT)

    undisturbed, losses = trained(None)
    with pytest.raises(Killed if way == "killed" else OutputError, match=None if way == "killed" else "after 5 steps"):
        trained(tmp_path, Stopping())
    assert steps_done(tmp_path) == (4 if way == "killed" else 5)
    again, losses_again = trained(tmp_path)
    assert losses_again == losses
    assert all(torch.equal(again[name], tensor) for name, tensor in undisturbed.items())


def test_a_checkpoint_that_was_being_written_is_passed_over(tmp_path: Path) -> None:
    class Stopping(Hooks):
        def before_update(self, step: int) -> None:
            if step == 4:
                raise Killed

    undisturbed, _ = trained(None)
    with pytest.raises(Killed):
        trained(tmp_path, Stopping())
    (tmp_path / "checkpoint-6").mkdir()
    (tmp_path / "checkpoint-6" / "trainer_state.json").write_text('{"glob')
    assert steps_done(tmp_path) == 4
    again, _ = trained(tmp_path)
    assert all(torch.equal(again[name], tensor) for name, tensor in undisturbed.items())


def test_the_loop_gives_the_bits_of_one_written_out_in_torch() -> None:
    """What the zoo's build scripts had before: the shipped experts could be trained again."""

    def rate(step: int) -> float:
        return 0.05 * (0.5 + 0.5 * math.cos(math.pi * step / 6))

    plain, model = Noisy(), Noisy()
    learned = [p for p in plain.parameters() if p.requires_grad]
    optimiser = torch.optim.AdamW(learned, betas=(0.9, 0.98), weight_decay=0.05)
    torch.manual_seed(11)
    for step in range(6):
        for group in optimiser.param_groups:
            group["lr"] = rate(step)
        optimiser.zero_grad(set_to_none=True)
        plain(**some(step)[0]).backward()
        nn.utils.clip_grad_norm_(learned, 1.0)
        optimiser.step()
    ours = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], betas=(0.9, 0.98), weight_decay=0.05)
    train(model, some, ours, steps=6, rate=rate, clip=1.0, seed=11)
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in plain.state_dict().items())
