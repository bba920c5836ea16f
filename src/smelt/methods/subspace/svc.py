"""SVC, singular value calibration: shrink the directions of a merged change that the models counted several times.

    M = U S V^T        a_ri = u_r^T d_i        s_ri = <u_r^T M, a_ri> / |a_ri|^2
    S_r *= n / sum_i max(alpha, s_ri)

s_ri says how many times model i's own response along u_r is in the merged one: 1 is right, n is a shared direction
added n times, which calibration divides by n.

Li et al. 2026, arXiv:2602.05536. A model without any response along u_r has no s_ri and is not counted there (neither
in n nor in the sum); where no model responds, S_r stays.
Differs from the authors' code: it takes max(alpha, mean_i s_ri) where all s_ri are positive and leaves every other
direction alone; the formula above, Smelt's specification of the paper, clips model by model.

Use it after `task_arithmetic` or another sum, where models share directions: what n models brought is counted once. It
takes the scale out again, so there is little to tune. Avoid it after methods that have dealt with shared directions
already (`tsv`, `iso_c`, `wudi`), and where the scale of the method before it is meant to stay.

Its parameters:
    alpha: the least overlap that counts; a direction is raised by at most 1/alpha. Try `0.1` to `1`; at 1 nothing is
        raised.

Example:
    merge: [{task_arithmetic: {scale: 0.3}}, {svc: {alpha: 0.1}}]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import Positive, Stack, merge_wrapper
from smelt.ops.spectral import noise, svd

if TYPE_CHECKING:
    from torch import Tensor


# It calibrates against the size of the merged change, which takes the scale out again: no `stretches`.
@merge_wrapper(
    "svc",
    unit="matrix",
    paper="2602.05536",
    latex=(
        r"M = U S V^{\top} \\ a_{r i} = u_r^{\top} d_i \\ "
        r"s_{r i} = \frac{\langle u_r^{\top} M,\, a_{r i}\rangle}{|a_{r i}|^2} \\ "
        r"S_r \leftarrow S_r \cdot \frac{n}{\sum_i \max(alpha,\, s_{r i})}"
    ),
)
def svc(merged: Tensor, deltas: Stack, *, alpha: Positive = 0.1) -> Tensor:
    import torch

    left, values, right = svd(merged)
    counted, total = torch.zeros_like(values), torch.zeros_like(values)
    for delta in deltas:
        response = left.mT @ delta.to(torch.float64)
        squared = response.square().sum(1)
        responds = squared > noise(delta) ** 2
        times = values * (right * response).sum(1) / squared.where(responds, 1.0)
        counted += responds
        total += times.clamp_min(alpha).where(responds, 0.0)
    calibrated = values * torch.where(counted > 0, counted / total, 1.0)
    return ((left * calibrated) @ right).to(merged.dtype)
