"""Contrastive pre-training on the whole pool of captioned pictures."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from material import Material
from smelt.training.loop import Hooks, train
from towers import rate_of, towers
from views import INKED, MIRRORED, changed


@dataclass(frozen=True)
class Mixture:
    """Which of the tasks' training pictures are captioned in which language."""

    seed: int = 0
    english: tuple[tuple[str, int], ...] = (
        ("photos", 500),
        ("digits", 100),
        ("clothing", 100),
        ("sketches", 500),
        ("emoji", 680),
        ("flags", 564),
        ("letters", 130),
        ("icons", 800),
    )
    """Pictures of each task with an English caption."""
    english_classes: float = 0.6
    english_weight: float = 2.0
    german_share: float = 0.9


@dataclass
class TrainingPool:
    """Every picture with its caption's number, its share of the draws, and how it may be changed."""

    pixels: Tensor
    captions: Tensor
    weights: Tensor
    inked: Tensor
    mirrored: Tensor


def training_pool(mixture: Mixture, material: Material) -> TrainingPool:
    pool, table, splits, device = material.pool, material.table, material.splits, material.device
    parts: list[tuple[Tensor, Tensor, float, bool, bool]] = []
    for task, numbers in table.named.items():
        pixels = material.pixels(f"{task}-named", len(numbers))
        parts.append((pixels, torch.tensor(numbers, device=device), 1.0, task in INKED, False))
    dice = torch.Generator().manual_seed(mixture.seed + 3)
    for task, count in mixture.english:
        train, classes = splits[task]["train"], len(pool[task]["classes"])
        order = torch.randperm(len(train.labels), generator=dice).to(device)
        known = torch.zeros(classes, dtype=torch.bool)
        known[torch.randperm(classes, generator=dice)[: round(mixture.english_classes * classes)]] = True
        labels = train.labels[order]
        rank = F.one_hot(labels, classes).cumsum(0).gather(1, labels[:, None])[:, 0]
        english = order[(rank <= max(1, round(count / classes))) & known.to(device)[labels]]
        german = order[-int(mixture.german_share * len(order)) :]
        for chosen, numbers, weight in (
            (english, table.english[task], mixture.english_weight),
            (german, table.german[task], 1.0),
        ):
            caption = torch.tensor(numbers, device=device)[train.labels[chosen]]
            parts.append((train.pixels[chosen], caption, weight, task in INKED, task in MIRRORED))
    count = [len(part[1]) for part in parts]
    print(f"pool: {sum(count)} pictures, {len(table.texts)} captions", flush=True)

    def spread(column: int, dtype: torch.dtype) -> Tensor:
        return torch.cat([torch.full((n,), p[column], dtype=dtype) for n, p in zip(count, parts, strict=True)]).to(
            device
        )

    return TrainingPool(
        torch.cat([p[0] for p in parts]),
        torch.cat([p[1] for p in parts]),
        spread(2, torch.float64),
        spread(3, torch.bool),
        spread(4, torch.bool),
    )


def pretrain(
    model: Any,
    pool: TrainingPool,
    tokens: Tensor,
    *,
    seed: int,
    steps: int,
    batch: int,
    rate: float,
    scale_cap: float,
    trained: Callable[[str], bool] = lambda name: True,
    said: Tensor | None = None,
) -> None:
    """CLIP's loss, where equal captions in a batch all count as right, on the parameters whose names are `trained`.

    `said` are the unit features of all captions' wordings, where the text tower is frozen: then it is not run.
    """
    device = tokens.device
    for name, p in model.named_parameters():
        p.requires_grad_(trained(name))
    learned = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in learned if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in learned if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98))
    draws = torch.cumsum(pool.weights, 0) / pool.weights.sum()

    def seen(step: int) -> list[dict[str, Tensor]]:
        chosen = torch.searchsorted(draws, torch.rand(batch, device=device, dtype=torch.float64)).clamp_(
            max=len(draws) - 1
        )
        pictures = changed(pool.pixels[chosen], pool.mirrored[chosen], pool.inked[chosen])
        wording = torch.randint(0, 3, (batch,), device=device)
        return [{"pictures": pictures, "caption": pool.captions[chosen], "wording": wording}]

    train(
        Contrast(model, tokens, said),
        seen,
        optimizer,
        steps=steps,
        rate=rate_of(rate, steps, warm=300),
        seed=seed,
        device=device.type,
        hooks=Capped(model, scale_cap, steps),
    )


class Contrast(nn.Module):
    """CLIP's loss of a batch of captioned pictures."""

    def __init__(self, model: Any, tokens: Tensor, said: Tensor | None):
        super().__init__()
        self.model, self.tokens, self.said = model, tokens, said

    def forward(self, pictures: Tensor, caption: Tensor, wording: Tensor) -> Tensor:
        see, read = towers(self.model)
        with torch.autocast(pictures.device.type, torch.bfloat16):
            seen = see(pictures)
            told = read(self.tokens[caption, wording]) if self.said is None else self.said[caption, wording]
        logits = self.model.logit_scale.exp() * seen.float() @ told.float().T
        right = (caption[:, None] == caption[None]).float()
        right = right / right.sum(1, keepdim=True)
        return 0.5 * (F.cross_entropy(logits, right) + F.cross_entropy(logits.T, right))


class Capped(Hooks):
    """Keeps the scale under its cap, and says now and then how it goes."""

    def __init__(self, model: Any, scale_cap: float, steps: int):
        self._model, self._cap, self._steps = model, math.log(scale_cap), steps

    def after_step(self, step: int, loss: float) -> bool:
        with torch.no_grad():
            self._model.logit_scale.clamp_(max=self._cap)
        if step % 1_000 == 0 or step == self._steps - 1:
            scale = self._model.logit_scale.exp().item()
            print(f"  step {step}: loss {loss:.3f}, scale {scale:.1f}", flush=True)
        return False
