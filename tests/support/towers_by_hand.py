"""Encoders of a few numbers, and the toy on which NeuLig's numbers were recomputed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy, normalize

from smelt.learning.neulig.experts import Experts
from smelt.tasks.examples import ArrayStream


class Tower:
    """A module whose output is the features; scores are ten times the cosines with the head's rows."""

    def __init__(self, module: nn.Module, scale: float = 10.0):
        self.module = module.eval()
        buffers = {name for name, tensor in module.named_buffers() if tensor.is_floating_point()}
        self.keys = tuple(
            name for name in module.state_dict() if name in buffers | dict(module.named_parameters()).keys()
        )
        self.device, self.scale = "cpu", scale
        self.encoded = 0
        """Examples that went through, those of a map as one each."""

    def weights(self) -> dict[str, Tensor]:
        return {key: tensor.detach() for key, tensor in self.module.state_dict().items() if key in self.keys}

    def encode(self, weights: Mapping[str, Tensor], inputs: Any) -> Tensor:
        self.encoded += len(inputs)
        features: Tensor = functional_call(self.module, dict(weights), (inputs,))
        return features

    def classify(self, features: Tensor, head: Tensor) -> Tensor:
        return self.scale * normalize(features, dim=-1) @ head.T

    def logits(self, weights: Mapping[str, Tensor], inputs: Any, head: Tensor | None) -> Tensor:
        assert head is not None
        return self.classify(self.encode(weights, inputs), head)


class Numbers(nn.Module):
    """One vector of weights; the feature is half its square in the metric diag(1, 2, 3), for every input."""

    def __init__(self, *numbers: float):
        super().__init__()
        self.theta = nn.Parameter(torch.tensor(numbers))

    def forward(self, x: Tensor) -> Tensor:
        return (0.5 * (torch.tensor([1.0, 2.0, 3.0]) * self.theta**2).sum()).expand(len(x), 1)


ROWS = ((1.0, 2.0, 3.0), (2.0, 0.0, 1.0), (0.0, 1.0, 5.0))
BETA = torch.tensor([0.2, 0.5, 0.3])


def three() -> Experts:
    """The experts whose numbers the acceptance tests are about."""
    return Experts({name: Tower(Numbers(*row)) for name, row in zip("abc", ROWS, strict=True)})


def mlp(seed: int, inputs: int = 12, hidden: int = 48, width: int = 16) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, width))


def linear(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Linear(6, 4)


class Conv(nn.Module):
    """A convolution, BatchNorm with its statistics, and a projection."""

    def __init__(self, seed: int):
        super().__init__()
        torch.manual_seed(seed)
        self.conv = nn.Conv2d(3, 4, 3, stride=2)
        self.norm = nn.BatchNorm2d(4)
        self.out = nn.Linear(4, 5)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2)
        self.norm.num_batches_tracked += seed

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.conv(x)).relu().mean(dim=(2, 3)))


def towers(make: Any, count: int = 3) -> Experts:
    return Experts({f"e{seed}": Tower(make(seed)) for seed in range(count)})


def coopvecs(count: int, experts: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(count, experts, generator=draw).mul(2).softmax(dim=-1)


def head(classes: int, width: int, seed: int = 0) -> Tensor:
    draw = torch.Generator().manual_seed(1000 + seed)
    return normalize(torch.randn(classes, width, generator=draw), dim=-1)


class Toy:
    """Three clusters of four classes in twelve dimensions, and an expert for each cluster.

    Cluster centres of std 3, class centres of std 1.6 around them, unit noise; 12-48-16 tanh experts, each trained on
    its own cluster with a fixed random head, all from one initialisation or each from its own.
    """

    def __init__(self, seed: int, *, shared: bool = True, examples: int = 1000):
        draw = torch.Generator().manual_seed(seed)
        centres = 3 * torch.randn(3, 1, 12, generator=draw) + 1.6 * torch.randn(3, 4, 12, generator=draw)
        self.heads = [head(4, 16, 10 * seed + number) for number in range(3)]
        self.splits: dict[str, dict[str, ArrayStream]] = {}
        for split in ("train", "val", "test"):
            self.splits[split] = {}
            for number in range(3):
                labels = torch.arange(examples) % 4
                inputs = centres[number][labels] + torch.randn(examples, 12, generator=draw)
                self.splits[split][f"d{number}"] = ArrayStream(f"d{number}", inputs, labels, self.heads[number])
        self.experts = Experts(
            {
                f"d{number}": self._trained(stream, 100 * seed + (0 if shared else number))
                for number, stream in enumerate(self.splits["train"].values())
            }
        )

    def _trained(self, stream: ArrayStream, seed: int) -> Tower:
        tower = Tower(mlp(seed))
        (batch,) = stream.batches(len(stream))
        adam = torch.optim.Adam(tower.module.parameters(), lr=1e-2)
        for _ in range(60):
            adam.zero_grad()
            cross_entropy(tower.classify(tower.module(batch.inputs), batch.head), batch.labels).backward()
            adam.step()
        tower.module.requires_grad_(False)
        return tower
