"""AdaRank: task arithmetic with the singular directions of each model that do the others no harm.

    d_i = U_i S_i V_i^T       out = base + scale * sum_i U_i diag(S_i m_i) V_i^T

m_i has a number for each of the min(rows, columns) singular directions of model i's change, largest singular value
first: 1 keeps it, 0 prunes it. They are learned on unlabelled data: `smelt learn` with `adarank`. All ones are task
arithmetic. Other tensors, and matrices without such numbers, are added up under the same scale.

Lee et al. 2025, arXiv:2503.22178. Differs from it: the masks are learned first and merged here by streaming, so numbers
between 0 and 1 are allowed; directions that are rounding noise (a low-rank or untouched layer) are left out.

Use it where unlabelled examples of each task are at hand and the sum of changes suffers from directions that disturb
the other tasks. Avoid it where `tsv` or `wudi` will do: in clip8 both stood above it, without data and without
training.

Its parameters:
    scale: multiplies the sum of the pruned changes. Try `0.2` to `0.5`.

Example:
    merge: {adarank: {scale: 0.3, steps: 500}}
    data: {split: val}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import Stack, merge_method
from smelt.ops.spectral import svd

if TYPE_CHECKING:
    from torch import Tensor


@merge_method(
    "adarank",
    unit="matrix",
    statistics="components",
    elsewhere="sum",
    paper="2503.22178",
    stretches=True,
    exempt={"copies": "a sum of n equal changes is n changes, by definition"},
    latex=r"d_i = U_i S_i V_i^{\top} \\ out = base + scale \sum_i U_i\, diag(S_i\, m_i)\, V_i^{\top}",
)
def adarank(deltas: Stack, statistics: Stack, *, scale: float = 0.3) -> Tensor:
    import torch

    merged = torch.zeros(deltas.shape[1:], dtype=torch.float64, device=deltas.device)
    for delta, kept in zip(deltas, statistics, strict=True):
        left, values, right = svd(delta)
        merged.addmm_(left * (values * kept[: len(values)]), right)
    return merged.to(deltas.dtype).mul_(scale)
