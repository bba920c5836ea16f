"""SCE: select by variance, calculate weights from squared magnitude, erase what disagrees in sign.

    of the positions where d varies across models, keep the `density` share with the largest variance (per tensor)
    w_i = mean(d_i^2) / sum_j mean(d_j^2)       s = sign(sum_i d_i)
    out = base + sum_i w_i d_i [sign d_i = s] / sum_i w_i [sign d_i = s]

FuseChat, Wan et al. 2024, arXiv:2408.07990. mergekit falls back to equal weights where all mean(d^2) are below 1e-6,
which is every usual fine-tune; here the weights are always the squared magnitudes (`equal_below` restores it).

Use it for fine-tunes whose changes differ much in size: the weights follow from the changes themselves, and nothing
has to be tuned. Avoid it where a small change matters as much as a large one: a model that changed a tensor little
counts little there.

Its parameters:
    density: the share of the positions that is kept, those that vary most across the models. Try `0.1` to `1`.
    tie: what an exact tie of signs gives: `base` leaves the base, `positive` takes the positive ones, as mergekit
        does.
    equal_below: below this mean square all models count alike. Try `0`, or `1e-6` to do as mergekit does.

Example:
    merge: {sce: {density: 0.5}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from smelt.methods.method import Fraction, Stack, merge_method
from smelt.ops.fold import Chain, Fold, Sum
from smelt.ops.geometry import mean, weighted_sum
from smelt.ops.order import Cut, Largest, share
from smelt.ops.prune import SquaredNorms, keep_above
from smelt.ops.signs import Tie, agreeing, elected_sign

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor


def _variance(deltas: Stack) -> Tensor:
    """Across models; written out because torch's own is fifty times slower along the first axis."""
    return mean((deltas - mean(deltas)).square_())


def _select(deltas: Stack, cuts: list[list[Cut]] | None) -> Stack:
    if cuts is None:
        return deltas
    return deltas * keep_above(_variance(deltas), cuts[0][0]).sign_()


def _prepare(density: float, equal_below: float) -> Fold:
    def shares(found: NDArray[np.float64]) -> NDArray[np.float64]:
        squares, count = found[:-1], found[-1]
        if squares.sum() <= equal_below * count:
            return np.full_like(squares, 1 / len(squares))
        return np.asarray(squares / squares.sum())

    positions: Fold = _Everything()
    if density < 1:
        ranks = lambda row, count: [share(count, density)]  # noqa: E731
        positions = _Varying(ranks, values=lambda block: _variance(block.stack)[None], rows=1)
    return Chain(positions, lambda at: SquaredNorms(at, _select, shares))


class _Varying(Largest):
    """Counts only entries above zero, as the authors do: what no model changed is not there to be selected."""

    skips_zeros = True


class _Everything(Sum):
    """The selection of all positions, which needs no pass."""

    passes = 0

    def __init__(self) -> None:
        super().__init__(lambda block: block.stack, lambda total: None)

    @property
    def wants_pass(self) -> bool:
        return False


@merge_method(
    "sce",
    paper="2408.07990",
    prepare=_prepare,
    latex=(
        r"w_i = \frac{mean(d_i^2)}{\sum_j mean(d_j^2)} \\ s = sign\sum_i d_i \\ "
        r"out = base + \frac{\sum_i w_i d_i\,[sign\, d_i = s]}{\sum_i w_i\,[sign\, d_i = s]}"
    ),
)
def sce(
    deltas: Stack,
    found: tuple[list[list[Cut]] | None, NDArray[np.float64]],
    *,
    density: Fraction = 1.0,
    tie: Tie = "base",
    equal_below: Annotated[float, Field(ge=0)] = 0.0,
) -> Tensor:
    cuts, weights = found
    selected = _select(deltas, cuts)
    sign = elected_sign(selected, "mass", tie)
    agreed = agreeing(selected, sign)
    merged = weighted_sum(agreed, weights)
    return merged.div_(weighted_sum(agreed.sign_(), weights).clamp_min_(1e-30)).mul_(sign)
