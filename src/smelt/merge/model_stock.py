"""Model stock: how far to go from the base towards the mean, judged by how much the changes agree.

    c = mean pairwise cosine of the d_i      t = n c / (1 + (n-1) c)      out = base + t * mean_i d_i

Jang et al. 2024, arXiv:2403.19522. Orthogonal changes give the base, equal ones the mean. `over: row` takes the
cosine per output unit (the paper's filter-wise form). At the pole of t, where the changes oppose, the base stays.
mergekit divides by at least 1e-6, so that small changes (of a norm, or of one unit) seem to agree less; `floor`
restores that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from smelt.merge.method import Stack, Unit, merge_method
from smelt.ops.fold import Sum
from smelt.ops.geometry import gram, row_gram

if TYPE_CHECKING:
    from torch import Tensor


def _step_length(grams: Tensor, floor: float) -> Tensor:
    """T for one Gram matrix or a batch of them."""
    import torch

    n = grams.shape[-1]
    norms = grams.diagonal(dim1=-2, dim2=-1).clamp_min(0).sqrt()
    products = (norms[..., :, None] * norms[..., None, :]).clamp_min(floor)
    cosines = torch.where(products > 0, grams / products.clamp_min(1e-300), torch.zeros_like(grams)).clamp(-1, 1)
    off = cosines.sum((-2, -1)) - cosines.diagonal(dim1=-2, dim2=-1).sum(-1)
    c = off / (n * (n - 1))
    pole = 1 + (n - 1) * c
    return torch.where(pole.abs() < 1e-6, torch.zeros_like(c), n * c / torch.where(pole.abs() < 1e-6, 1, pole))


def _agreement(over: str, floor: float) -> Sum | None:
    return Sum(gram, lambda total: float(_step_length(total, floor))) if over == "tensor" else None


def _unit(over: str) -> Unit:
    return "element" if over == "tensor" else "row"


@merge_method("model_stock", paper="2403.19522", unit=_unit, prepare=_agreement, models=(2, None))
def model_stock(
    deltas: Stack,
    t: float | None,
    *,
    over: Literal["tensor", "row"] = "tensor",
    floor: Annotated[float, Field(ge=0)] = 0.0,
) -> Tensor:
    mean = deltas.mean(0)
    if t is not None:
        return mean * t
    return mean * _step_length(row_gram(deltas), floor).to(mean.dtype)[:, None]
