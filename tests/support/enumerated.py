"""The Fisher information by its definition: a loop over examples and classes, one gradient each, in float64."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from smelt.models.families.network import ModuleNetwork
from smelt.tasks.examples import ArrayStream


def exact(network: ModuleNetwork, stream: ArrayStream) -> dict[str, Tensor]:
    return _sum(network, stream, lambda p, label: list(enumerate(p.tolist())))


def empirical(network: ModuleNetwork, stream: ArrayStream) -> dict[str, Tensor]:
    return _sum(network, stream, lambda p, label: [(int(label), 1.0)])


def _sum(network: ModuleNetwork, stream: ArrayStream, chances) -> dict[str, Tensor]:  # type: ignore[no-untyped-def]
    module = network.module.double()
    weights = {key: tensor.double().requires_grad_() for key, tensor in network.weights().items()}
    totals = {key: torch.zeros_like(tensor.detach()) for key, tensor in weights.items()}
    for place in range(len(stream)):
        batch = stream.batch([place])
        inputs = batch.inputs.double() if batch.inputs.is_floating_point() else batch.inputs
        scores = torch.func.functional_call(module, weights, (inputs,))[0].log_softmax(-1)
        for label, chance in chances(scores.detach().exp(), batch.labels[0]):
            found = torch.autograd.grad(scores[label], list(weights.values()), retain_graph=True, allow_unused=True)
            for total, gradient in zip(totals.values(), found, strict=True):
                if gradient is not None:
                    total.add_(chance * gradient.detach().square())
    network.module.float()
    return totals


class Attention(nn.Module):
    """A picture model in small: patches, a class token, positions, layer norm, attention with an MLP, a head."""

    def __init__(self, width: int = 8, classes: int = 5):
        super().__init__()
        self.patches = nn.Conv2d(2, width, 2, stride=2)
        self.token = nn.Parameter(torch.randn(width))
        self.positions = nn.Embedding(5, width)
        self.norm = nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 12), nn.Linear(12, width)
        self.head = nn.Linear(width, classes, bias=False)

    def forward(self, pictures: Tensor) -> Tensor:
        patches = self.patches(pictures).flatten(2).mT
        token = self.token.expand(len(patches), 1, -1)
        places = torch.arange(5, device=pictures.device)
        x = torch.cat([token, patches], dim=1) + self.positions(places)[None]
        y = self.norm(x)
        x = x + self.o(nn.functional.scaled_dot_product_attention(self.q(y), self.k(y), self.v(y)))
        x = x + self.down(torch.nn.functional.gelu(self.up(x)))
        return self.head(x[:, 0])


def attention(classes: int = 5, examples: int = 6) -> tuple[ModuleNetwork, ArrayStream]:
    """A small picture model of random numbers, and random pictures for it."""
    torch.manual_seed(0)
    network = ModuleNetwork(Attention(classes=classes))
    stream = ArrayStream("pictures", torch.randn(examples, 2, 4, 4), torch.arange(examples) % classes)
    return network, stream
