from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from mixing_by_hand import tiny, tuned
from smelt.mixing.network import mixed_network
from smelt.mixing.objective import router_objective
from smelt.mixing.wemoe import WeMoE
from smelt.models.families.network import ModuleNetwork
from smelt.optimise.loop import optimise
from smelt.tasks.examples import ArrayStream, ExampleBatch


class TwoScores(nn.Module):
    """Scores (w x, 0) of one number x."""

    def __init__(self, weight: float):
        super().__init__()
        self.mlp = nn.Linear(1, 1, bias=False)
        with torch.no_grad():
            self.mlp.weight.fill_(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        score = self.mlp(x)
        return torch.cat([score, torch.zeros_like(score)], dim=1)


def _one_number(gate: float) -> object:
    """Base weight 0, expert weight 1: the score is gate · x."""
    settings = WeMoE(scale=gate)
    mixed = mixed_network(ModuleNetwork(TwoScores(0.0)), {"a": TwoScores(1.0)}, routed="mlp", settings=settings)
    with torch.no_grad():
        mixed.routers["mlp"].last.weight.zero_()
    return mixed


def _batch(x: float, label: int = 0) -> ExampleBatch:
    return ExampleBatch(torch.tensor([[x]]), torch.tensor([label]), None)


def test_the_loss_is_the_entropy_of_the_prediction_and_its_gradient_is_known() -> None:
    """p = sigmoid(z), z = g x = 2. H = -p ln p - q ln q and dH/dg = -z p q · x."""
    p = 1 / (1 + math.exp(-2.0))
    with router_objective(_one_number(0.5), threads=1) as objective:  # type: ignore[arg-type]
        gradients, losses = objective.gradients({"task": _batch(4.0)})
    assert losses["task"] == pytest.approx(-p * math.log(p) - (1 - p) * math.log(1 - p), rel=1e-5)
    assert gradients["mlp.last.bias"].item() == pytest.approx(-2 * p * (1 - p) * 4, rel=1e-5)


def test_with_labels_it_is_the_cross_entropy() -> None:
    """Label 1: loss = -ln q, d/dg = p x."""
    p = 1 / (1 + math.exp(-2.0))
    with router_objective(_one_number(0.5), "labels", threads=1) as objective:  # type: ignore[arg-type]
        gradients, losses = objective.gradients({"task": _batch(4.0, 1)})
    assert losses["task"] == pytest.approx(-math.log(1 - p), rel=1e-5)
    assert gradients["mlp.last.bias"].item() == pytest.approx(p * 4, rel=1e-5)


def test_gradients_of_several_tasks_are_added_and_losses_kept_apart() -> None:
    with router_objective(_one_number(0.5), threads=2) as objective:  # type: ignore[arg-type]
        one, first = objective.gradients({"a": _batch(4.0)})
        two, second = objective.gradients({"b": _batch(1.0)})
        both, losses = objective.gradients({"a": _batch(4.0), "b": _batch(1.0)})
    assert losses == {**first, **second}
    for name, gradient in both.items():
        torch.testing.assert_close(gradient, one[name] + two[name])


def _tiny_mixture() -> object:
    return mixed_network(
        ModuleNetwork(tiny()), {name: tuned(tiny(), seed) for seed, name in enumerate("ab", 1)}, routed="blocks.*.mlp"
    )


def test_gradients_are_those_of_finite_differences() -> None:
    mixed = _tiny_mixture()
    batch = ExampleBatch(torch.randn(3, 4, 6, generator=torch.Generator().manual_seed(0)), torch.zeros(3), None)
    with router_objective(mixed, threads=1) as objective:  # type: ignore[arg-type]
        gradients, _ = objective.gradients({"t": batch})
        for name in ("blocks.0.mlp.last.bias", "blocks.1.mlp.last.bias"):
            parameter, step, found = objective.parameters[name], 1e-2, []
            for place in range(len(parameter)):
                around = []
                for sign in (1, -1):
                    with torch.no_grad():
                        parameter[place] += sign * step
                    around.append(objective.gradients({"t": batch})[1]["t"])
                    with torch.no_grad():
                        parameter[place] -= sign * step
                found.append((around[0] - around[1]) / (2 * step))
            assert gradients[name].tolist() == pytest.approx(found, rel=0.02, abs=2e-4)


def test_the_number_of_threads_does_not_change_a_bit() -> None:
    draw = torch.Generator().manual_seed(0)
    batches = {
        str(task): ExampleBatch(torch.randn(5, 4, 6, generator=draw), torch.zeros(5, dtype=torch.int64), None)
        for task in range(4)
    }
    found = []
    for threads in (1, 3):
        with router_objective(_tiny_mixture(), threads=threads) as objective:  # type: ignore[arg-type]
            found.append(objective.gradients(batches))
    assert found[0][1] == found[1][1]
    assert all(torch.equal(found[0][0][name], found[1][0][name]) for name in found[0][0])


def test_learned_routers_send_every_task_to_its_expert() -> None:
    """Expert a is right for positive inputs, expert b for negative ones, and each is wrong for the other's."""
    base, experts = TwoScores(0.0), {"a": TwoScores(3.0), "b": TwoScores(-3.0)}
    mixed = mixed_network(ModuleNetwork(base), experts, routed="mlp", settings=WeMoE(scale=0.3))
    draw = torch.Generator().manual_seed(0)
    x = 0.5 + torch.rand(32, 1, generator=draw)
    zeros = torch.zeros(32, dtype=torch.int64)
    streams = {"a": ArrayStream("a", x, zeros), "b": ArrayStream("b", -x, zeros)}
    with router_objective(mixed, "labels", threads=1) as objective:
        trace = optimise(objective, streams, steps=150, lr=0.05, batch=8)
    assert sum(trace[-1]["loss"].values()) < 0.2 < 1.0 < sum(trace[0]["loss"].values())
    right, left = mixed.routers["mlp"](torch.tensor([[1.0], [-1.0]])).tolist()
    assert right[0] > right[1]
    assert left[1] > left[0]
