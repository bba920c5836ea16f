"""MagMax: of all models' changes, the largest at every entry.

    out = base + scale * d_k      k = argmax_i |d_i|        (of x and -x, the positive one)

Marczak et al. 2024, arXiv:2407.06322.

Use it for models that were trained one after the other on a stream of tasks, for which it was made: the largest change
of each weight is kept. Avoid it for independent experts of many tasks: at every entry one model decides alone and the
merged change becomes large; in clip8 it stood below task arithmetic.

Its parameters:
    scale: multiplies the merged change. Try `0.5` to `1`.

Example:
    merge: {magmax: {scale: 0.8}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import Stack, merge_method

if TYPE_CHECKING:
    from torch import Tensor


@merge_method(
    "magmax",
    paper="2407.06322",
    stretches=True,
    latex=r"out = base + scale \cdot d_k \\ k = \arg\max_i |d_i|",
)
def magmax(deltas: Stack, *, scale: float = 1.0) -> Tensor:
    import torch

    high, low = deltas.amax(0), deltas.amin(0)
    return torch.where(high >= -low, high, low) * scale
