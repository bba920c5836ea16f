"""Routers: a small network per MLP that says, for each sample, how much of every expert's change is added.

    g = mean_t( V relu(U h_t + b) + c )        h [tokens, width] of ONE sample, g [experts]

The mean is over the sample's own tokens and never over a batch, so a sample is routed alike in any company. It is taken
before V, which gives the same numbers with less work. At the start V and U are noise of 0.01, b is 0 and c the scale:
the mixture begins as task arithmetic.
"""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor, nn

__all__ = ["Router"]

_NOISE = 0.01


class Router(nn.Module):
    """Gates [samples, experts] in fp32 of hidden states [samples, ..., width]; with `top` the others are zero."""

    def __init__(self, width: int, experts: int, top: int | None = None):
        super().__init__()
        self.first, self.last = nn.Linear(width, width), nn.Linear(width, experts)
        self.top = top

    @classmethod
    def begin(cls, width: int, experts: int, *, scale: float, seed: int, place: str, top: int | None = None) -> Router:
        """A router that says `scale` of every expert, give or take noise that belongs to the place."""
        router = cls(width, experts, top)
        key = hashlib.blake2b(f"{seed}\0{place}".encode(), digest_size=8).digest()
        draw = torch.Generator().manual_seed(int.from_bytes(key, "little") >> 1)
        with torch.no_grad():
            for layer, bias in ((router.first, 0.0), (router.last, scale)):
                layer.weight.normal_(0, _NOISE, generator=draw)
                layer.bias.fill_(bias)
        return router

    def forward(self, hidden: Tensor) -> Tensor:
        inner = torch.relu(self.first(hidden.float()))
        mean = inner.flatten(1, -2).mean(dim=1) if inner.ndim > 2 else inner
        return _largest(self.last(mean), self.top)


def _largest(gates: Tensor, top: int | None) -> Tensor:
    """The `top` gates of largest magnitude of each sample as they are, the others zero."""
    if top is None or top >= gates.shape[1]:
        return gates
    places = gates.detach().abs().topk(top, dim=1).indices
    return gates * torch.zeros_like(gates).scatter(1, places, 1.0)
