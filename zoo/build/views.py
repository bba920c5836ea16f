"""Pictures as the models see them in training: normalised, and each time a little different."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

MEAN, DEVIATION = 0.5, 0.25
MIRRORED = ("photos", "clothing")
"""Tasks whose pictures mean the same in a mirror."""
INKED = ("icons", "sketches")
"""Black-on-white drawings, which pre-training also sees in other colours."""


def normalised(pixels: Tensor) -> Tensor:
    return (pixels.float() / 255 - MEAN) / DEVIATION


def changed(pixels: Tensor, mirrored: Tensor, inked: Tensor | None) -> Tensor:
    """A batch seen a little differently: turned, moved, scaled, mirrored, recoloured, in other light."""
    count, device = len(pixels), pixels.device

    def between(low: float, high: float) -> Tensor:
        return torch.rand(count, device=device) * (high - low) + low

    angle = between(-12, 12) * math.pi / 180
    size = 1 + between(-0.18, 0.18)
    wide, high = size * (1 + between(-0.08, 0.08)), size * (1 + between(-0.08, 0.08))
    flip = torch.where(mirrored & (torch.rand(count, device=device) < 0.5), -1.0, 1.0)
    rows = torch.stack([torch.cos(angle) * wide * flip, -torch.sin(angle) * wide, between(-0.12, 0.12)], 1)
    columns = torch.stack([torch.sin(angle) * high * flip, torch.cos(angle) * high, between(-0.12, 0.12)], 1)
    grid = F.affine_grid(torch.stack([rows, columns], 1), list(pixels.shape), align_corners=False)
    seen = F.grid_sample(pixels.float() / 255, grid, mode="bilinear", padding_mode="border", align_corners=False)
    if inked is not None:
        ink, paper = (torch.rand(count, 3, 1, 1, device=device) for _ in range(2))
        legible = (ink - paper).abs().mean(1, keepdim=True) > 0.25
        cover = 1 - seen[:, :1]
        use = (inked & (torch.rand(count, device=device) < 0.5))[:, None, None, None] & legible
        seen = torch.where(use, ink * cover + paper * (1 - cover), seen)
    contrast, light = 1 + between(-0.25, 0.25), between(-0.125, 0.125)
    seen = (seen - 0.5) * contrast[:, None, None, None] + 0.5 + light[:, None, None, None]
    return (seen - MEAN) / DEVIATION
