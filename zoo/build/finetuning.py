"""Fine-tuning a picture tower on one task, against the frozen text head; at the end through the codes of its pack.

A pack stores an expert as base + code * scale. With `bits` the last third of the steps computes with exactly that: the
gradient is taken at the rounded weights and moves the weights behind them, so that what is shipped is what was trained.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from material import Split
from smelt.formats.packs.codes import quantise
from towers import set_rate, towers
from views import changed

CODED = 256
"""Tensors of fewer numbers, and vectors, are stored exactly in a pack."""


def finetune(
    model: Any,
    head: Tensor,
    train: Split,
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
    device = train.labels.device
    torch.manual_seed(seed)
    model.eval()
    model.vision_model.train()  # BatchNorm learns the task's statistics; without it nothing differs
    for name, p in model.named_parameters():
        p.requires_grad_(trained(name))
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(learned.values(), lr=rate, betas=(0.9, 0.98), weight_decay=0.05)
    origin = base or {name: p.detach().clone() for name, p in learned.items()}
    coded = {name: p for name, p in learned.items() if bits and p.ndim >= 2 and p.numel() >= CODED}
    see, _ = towers(model)
    scale = model.logit_scale.exp().detach()
    mirror = torch.full((batch,), mirrored, device=device)
    for step in range(steps):
        set_rate(optimizer, rate, step, steps, warm=100)
        chosen = torch.randint(0, len(train.labels), (batch,), device=device)
        rounded = coded if step >= 2 * steps // 3 else {}
        behind = {name: p.detach().clone() for name, p in rounded.items()}
        for name, p in rounded.items():
            p.data.copy_(_rounded(p.detach(), origin[name], bits))
        with torch.autocast(device.type, torch.bfloat16):
            seen = see(changed(train.pixels[chosen], mirror, None))
        loss = F.cross_entropy(scale * seen.float() @ head.T, train.labels[chosen])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        for name, p in rounded.items():
            p.data.copy_(behind[name])
        optimizer.step()
    for name, p in coded.items():
        p.data.copy_(_rounded(p.detach(), origin[name], bits))


@torch.no_grad()
def _rounded(weights: Tensor, base: Tensor, bits: int | None) -> Tensor:
    """The weights as a pack of so many bits gives them back."""
    assert bits is not None
    codes, scales = quantise((weights - base).flatten(1), bits)
    return base + (codes * scales[:, None]).view_as(base)
