"""MagMax: of all models' changes, the largest at every entry.

    out = base + scale * d_k      k = argmax_i |d_i|        (of x and -x, the positive one)

Marczak et al. 2024, arXiv:2407.06322.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import Stack, merge_method

if TYPE_CHECKING:
    from torch import Tensor


@merge_method("magmax", paper="2407.06322", stretches=True)
def magmax(deltas: Stack, *, scale: float = 1.0) -> Tensor:
    import torch

    high, low = deltas.amax(0), deltas.amin(0)
    return torch.where(high >= -low, high, low) * scale
