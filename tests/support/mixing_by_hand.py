"""Small modules whose mixtures can be checked by hand, and CLIP models with two experts on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pico_clip import random_clip, save_clip


class Block(nn.Module):
    """A residual MLP over tokens, with attention in the place of a plain mean over the tokens."""

    def __init__(self, width: int):
        super().__init__()
        self.look = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.look(x.mean(dim=1, keepdim=True))
        return x + self.mlp(x)


class Tiny(nn.Module):
    """Tokens [n, tokens, width] -> scores [n, 3], through blocks whose MLPs can be routed: `blocks.*.mlp`."""

    def __init__(self, width: int = 6, blocks: int = 2):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(blocks))
        self.score = nn.Linear(width, 3)

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return self.score(x.mean(dim=1))


def tiny(seed: int = 0) -> Tiny:
    torch.manual_seed(seed)
    return Tiny()


def tuned(module: nn.Module, seed: int, amount: float = 0.3) -> dict[str, Tensor]:
    """The state dict of a fine-tune: every number moved a little."""
    draw = torch.Generator().manual_seed(seed)
    return {
        name: tensor + amount * torch.randn(tensor.shape, generator=draw)
        for name, tensor in module.state_dict().items()
    }


def clip_pool(folder: Path) -> dict[str, Any]:
    """A CLIP base and two fine-tunes of its picture tower on disk, as a recipe's pool."""
    base = random_clip(0)
    pool: dict[str, Any] = {"base": str(save_clip(base, folder / "base")), "models": {}}
    for number, name in enumerate(("one", "two"), 1):
        expert = random_clip(0)
        state = {key: tensor for key, tensor in tuned(base, number).items() if key.startswith("vision_model.")}
        expert.load_state_dict({**expert.state_dict(), **state})
        pool["models"][name] = str(save_clip(expert, folder / name))
    return pool
