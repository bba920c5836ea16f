"""TIES: trim small changes, elect a sign, average those that agree with it.

    s = sign(sum_i w_i d_i)      out = sum_i w_i d_i [sign d_i = s] / sum_i w_i [sign d_i = s]

Yadav et al. 2023, arXiv:2306.01708. Same as the authors' code: the trim ranks over the WHOLE model (`trim: tensor`
ranks in each tensor, as mergekit and peft do). Differs from it: exactly floor(count * density) entries survive
(theirs keeps one more), weights enter the election, and an exact tie leaves the base unchanged.

Use it for full fine-tunes of several tasks without data, where changes collide: small ones are left out and opposite
ones do not cancel. Tune `scale` if you can; it matters more than `density`. Avoid it for LoRA adapters as they are
(`knots` before it): their change has no small entries to leave out, and in llm5, whose models are adapters, it stood
last. Networks with BatchNorm need its statistics estimated again after the merge. For models of one task `average` is
simpler.

Its parameters:
    density: the share of its changes that each model keeps, the largest. Try `0.1` to `0.5`.
    weights: how much each model counts, in the election too. Try `1` for all, or `0.5` to `2` to favour some.
    scale: multiplies the merged change. Try `0.5` to `2` with `merge: mean`, `0.2` to `0.8` with `merge: sum`.
    trim: `model` ranks all entries of a model together, so that layers which changed more keep more; `tensor` ranks in
        each tensor, as mergekit does.
    merge: what becomes of the changes that agree: `mean` averages, `sum` adds, `max` takes the largest.
    elect: how the sign is chosen: `mass` by the summed changes, `count` by most models.
    tie: what an exact tie gives: `base` leaves the base, `positive` takes the positive ones, as mergekit does.

Example:
    merge: {ties: {density: 0.2, merge: sum, scale: 0.6}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from smelt.methods.method import Fraction, PerModel, Stack, merge_method
from smelt.ops.geometry import total, weighted_sum
from smelt.ops.order import Cut, Largest, keep_shares
from smelt.ops.prune import keep_rows
from smelt.ops.signs import Elect, Tie, agreeing, elected_sign

if TYPE_CHECKING:
    from torch import Tensor


def _trim(density: list[float], trim: Literal["model", "tensor"]) -> Largest | None:
    return keep_shares(density, scope=trim)


@merge_method(
    "ties",
    paper="2306.01708",
    prepare=_trim,
    stretches=True,
    exempt={"copies": "a trimmed change is not the whole change"},
    latex=(
        r"s = sign\sum_i w_i d_i \\ "
        r"out = base + scale \cdot \frac{\sum_i w_i d_i\,[sign\, d_i = s]}{\sum_i w_i\,[sign\, d_i = s]}"
    ),
)
def ties(
    deltas: Stack,
    cuts: list[list[Cut]] | None,
    *,
    density: PerModel[Fraction] = 0.2,
    weights: PerModel[float] = 1.0,
    scale: float = 1.0,
    trim: Literal["model", "tensor"] = "model",
    merge: Literal["mean", "sum", "max"] = "mean",
    elect: Elect = "mass",
    tie: Tie = "base",
) -> Tensor:
    # deltas [models, ...] to merged changes [...]; cuts: for each model a list with its one cut
    weighted = keep_rows(deltas, [row[0] for row in cuts]).mul_(weights) if cuts else deltas * weights
    sign = elected_sign(weighted, elect, tie)
    agreed = agreeing(weighted, sign)
    if merge == "max":
        return sign.mul_(agreed.amax(0)).mul_(scale)
    merged = total(agreed)
    if merge == "mean":
        shares = weighted_sum(agreed.sign_(), weights)
        if float(weights.min()) < 0:  # then so is the sum where such models agree; only 0 must not divide
            merged.div_(shares.masked_fill_(shares == 0, 1.0))
        else:
            merged.div_(shares.clamp_min_(1e-30))
    return merged.mul_(sign).mul_(scale)
