"""Networks of a few numbers whose gradients can be written down, and examples for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from smelt.formats.source import MemorySource
from smelt.learning.learner import Work
from smelt.learning.parallel_passes import Passes
from smelt.learning.task_vectors import TaskVectors
from smelt.models.families.network import ModuleNetwork
from smelt.tasks.examples import ArrayStream, ExampleBatch


class Slope(nn.Module):
    """Two classes, one weight: the scores are w x and 0."""

    def __init__(self, w: float = 1.0):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([w]))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x * self.w, torch.zeros_like(x)], dim=1)


class Small(nn.Module):
    """Embedding, two blocks and a head: enough to have layers before, in and after the blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 6)
        self.layers = nn.ModuleList([nn.Linear(6, 6), nn.Linear(6, 6)])
        self.norm = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.norm(x)


def small(seed: int = 0) -> Small:
    torch.manual_seed(seed)
    return Small()


def moved(module: nn.Module, seed: int, by: float = 0.3) -> dict[str, Tensor]:
    """A fine-tune: every weight moved a little."""
    draw = torch.Generator().manual_seed(seed)
    return {
        key: tensor.detach() + by * torch.randn(tensor.shape, generator=draw)
        for key, tensor in module.state_dict().items()
    }


def vectors(module: nn.Module, models: Mapping[str, Mapping[str, Tensor]], **words: object) -> TaskVectors:
    sources = {name: MemorySource(name, state) for name, state in models.items()}
    return TaskVectors(ModuleNetwork(module).weights(), sources, **words)


def batch(inputs: Sequence[Sequence[float]], labels: Sequence[int] | None = None) -> ExampleBatch:
    return ExampleBatch(torch.tensor(inputs), torch.tensor(labels or [0] * len(inputs)), None)


def random_batch(count: int, seed: int) -> ExampleBatch:
    draw = torch.Generator().manual_seed(seed)
    return ExampleBatch(torch.randn(count, 4, generator=draw), torch.randint(0, 3, (count,), generator=draw), None)


def stream(name: str, count: int = 40, seed: int = 0) -> ArrayStream:
    one = random_batch(count, seed)
    return ArrayStream(name, one.inputs, one.labels)


def work_with(
    module: nn.Module, models: Mapping[str, Mapping[str, Tensor]], streams: Mapping[str, ArrayStream], folder: Path
) -> tuple[Work, dict[str, dict[str, Tensor]]]:
    """A Work in memory, and the table in which what it keeps appears."""
    network, kept = ModuleNetwork(module), dict[str, dict[str, Tensor]]()
    sources = {name: MemorySource(name, state) for name, state in models.items()}
    work = Work(
        base=network.weights(),
        names=tuple(module.state_dict()),
        models=sources,
        streams=streams,
        passes=Passes(network, 1),
        folder=folder,
        keep=lambda model, kind, tensors: kept.update({model: dict(tensors)}),
    )
    return work, kept
