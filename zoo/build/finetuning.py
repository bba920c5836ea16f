"""Fine-tuning a picture tower on one task, against the frozen text head; at the end through the codes of its pack.

A pack stores an expert as base + code * scale. With `bits` the last third of the steps computes with exactly that: the
gradient is taken at the rounded weights and moves the weights behind them, so that what is shipped is what was trained.
The loop is `smelt.training.loop.train`; here are the pictures, the head and the rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from material import Split
from smelt.formats.packs.codes import quantise
from smelt.training.loop import Hooks, train
from towers import rate_of, towers
from views import changed

CODED = 256
"""Tensors of fewer numbers, and vectors, are stored exactly in a pack."""


def finetune(
    model: Any,
    head: Tensor,
    pictures: Split,
    *,
    trained: Callable[[str], bool],
    mirrored: bool,
    seed: int,
    steps: int,
    batch: int,
    rate: float,
    bits: int | None = None,
    base: dict[str, Tensor] | None = None,
) -> None:
    """Change the `trained` parameters. With `bits` they end as `base` plus codes; `base` is the model's own by default."""
    device = pictures.labels.device
    for name, p in model.named_parameters():
        p.requires_grad_(trained(name))
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(learned.values(), lr=rate, betas=(0.9, 0.98), weight_decay=0.05)
    origin = base or {name: p.detach().clone() for name, p in learned.items()}
    coded = {name: p for name, p in learned.items() if bits and p.ndim >= 2 and p.numel() >= CODED}
    mirror = torch.full((batch,), mirrored, device=device)

    def seen(step: int) -> list[dict[str, Tensor]]:
        chosen = torch.randint(0, len(pictures.labels), (batch,), device=device)
        with torch.autocast(device.type, torch.bfloat16):
            return [{"pixels": changed(pictures.pixels[chosen], mirror, None), "labels": pictures.labels[chosen]}]

    train(
        Classified(model, head),
        seen,
        optimizer,
        steps=steps,
        rate=rate_of(rate, steps, warm=100),
        seed=seed,
        device=device.type,
        hooks=Rounding(coded, origin, bits, 2 * steps // 3) if bits else None,
    )
    for name, p in coded.items():
        p.data.copy_(_rounded(p.detach(), origin[name], bits))


class Classified(nn.Module):
    """The loss of a batch: cross entropy of the cosines with the head."""

    def __init__(self, model: Any, head: Tensor):
        super().__init__()
        self.model, self.head = model, head
        self.scale = model.logit_scale.exp().detach()

    def train(self, mode: bool = True) -> Classified:
        """BatchNorm learns the task's statistics; without it nothing differs."""
        self.model.eval()
        self.model.vision_model.train(mode)
        return self

    def forward(self, pixels: Tensor, labels: Tensor) -> Tensor:
        see, _ = towers(self.model)
        with torch.autocast(pixels.device.type, torch.bfloat16):
            seen = see(pixels)
        return F.cross_entropy(self.scale * seen.float() @ self.head.T, labels)


class Rounding(Hooks):
    """From a step on: forward and backward at the rounded weights, the update at those behind them."""

    def __init__(self, coded: Mapping[str, Tensor], origin: Mapping[str, Tensor], bits: int, first: int):
        self._coded, self._origin, self._bits, self._first = coded, origin, bits, first
        self._behind: dict[str, Tensor] = {}

    def before_step(self, step: int) -> None:
        rounded = self._coded if step >= self._first else {}
        self._behind = {name: p.detach().clone() for name, p in rounded.items()}
        for name, p in rounded.items():
            p.data.copy_(_rounded(p.detach(), self._origin[name], self._bits))

    def before_update(self, step: int) -> None:
        for name, weights in self._behind.items():
            self._coded[name].data.copy_(weights)


@torch.no_grad()
def _rounded(weights: Tensor, base: Tensor, bits: int | None) -> Tensor:
    """The weights as a pack of so many bits gives them back."""
    assert bits is not None
    codes, scales = quantise((weights - base).flatten(1), bits)
    return base + (codes * scales[:, None]).view_as(base)
