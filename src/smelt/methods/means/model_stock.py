"""Model stock: how far to go from the base towards the mean, judged by how much the changes agree.

    c = mean pairwise cosine of the d_i      t = n c / (1 + (n-1) c)      out = base + t * mean_i d_i

Jang et al. 2024, arXiv:2403.19522. Orthogonal changes give the base, equal ones the mean. `over: row` takes the
cosine per output unit (the paper's filter-wise form). At the pole of t, where the changes oppose, the base stays.
mergekit divides by at least 1e-6, so that small changes (of a norm, or of one unit) seem to agree less; `floor`
restores that. A row of a convolution is all of its kernels for one output; mergekit's `filter_wise` takes each run
along the last axis.

Use it for several fine-tunes on the same task (other seeds, other order of data): it finds from their agreement alone
how far to go, and has nothing to tune. Avoid it for experts of different tasks: their changes are almost orthogonal,
so that t is almost 0 and the base comes back, as it did in clip8.

Its parameters:
    over: what one step length belongs to: `tensor` the whole tensor, `row` each output unit.
    floor: the least product of two norms to divide by; changes smaller than that count as less alike. Try `0`, or
        `1e-6` to do as mergekit does.

Example:
    merge: {model_stock: {over: row}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field

from smelt.methods.method import Stack, Unit, merge_method
from smelt.ops.fold import Totals
from smelt.ops.geometry import gram, mean, row_gram

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


def step_length(grams: NDArray[np.float64], floor: float) -> NDArray[np.float64]:
    """The t of one Gram matrix, or of each of a batch."""
    n = grams.shape[-1]
    norms = np.sqrt(np.maximum(np.diagonal(grams, axis1=-2, axis2=-1), 0))
    products = np.maximum(norms[..., :, None] * norms[..., None, :], floor)
    cosines = np.clip(np.where(products > 0, grams / np.maximum(products, 1e-300), 0.0), -1, 1)
    off = cosines.sum((-2, -1)) - np.diagonal(cosines, axis1=-2, axis2=-1).sum(-1)
    c = off / (n * (n - 1))
    pole = 1 + (n - 1) * c
    near = np.abs(pole) < 1e-6
    return np.where(near, 0.0, n * c / np.where(near, 1.0, pole))


def _agreement(over: str, floor: float) -> Totals | None:
    return Totals(gram, lambda total: float(step_length(total, floor))) if over == "tensor" else None


def _unit(over: str) -> Unit:
    return "element" if over == "tensor" else "row"


@merge_method(
    "model_stock",
    paper="2403.19522",
    unit=_unit,
    prepare=_agreement,
    models=(2, None),
    latex=(
        r"c = \frac{2}{n(n-1)} \sum_{i<j} \frac{\langle d_i, d_j\rangle}{|d_i|\,|d_j|} \\ "
        r"t = \frac{n c}{1 + (n-1)\,c} \\ out = base + \frac{t}{n} \sum_i d_i"
    ),
)
def model_stock(
    deltas: Stack,
    t: float | None,
    *,
    over: Literal["tensor", "row"] = "tensor",
    floor: Annotated[float, Field(ge=0)] = 0.0,
) -> Tensor:
    import torch

    middle = mean(deltas)
    if t is not None:
        return middle.mul_(t)
    lengths = step_length(row_gram(deltas).cpu().numpy(), floor)
    return middle.mul_(torch.from_numpy(lengths).to(middle)[:, None])
