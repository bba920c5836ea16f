"""Consensus: keep the entries of the summed change that at least `agree` models find important.

    T = sum_i d_i      m_i = [|d_i| >= threshold_i |T - d_i|]      out = base + scale * T where sum_i m_i >= agree

TALL masks, Wang et al. 2024, arXiv:2405.07813. `threshold` may be one per model, as MergeBench tunes it.

Use it for many experts, where entries that only one of them needs disturb the rest and may go. Avoid it for two or
three models, or where each task needs entries of its own: exactly those are dropped. In clip8 and llm5 it stood no
higher than plain task arithmetic.

Its parameters:
    threshold: how large a model's change must be against that of all others to count as important to it; smaller lets
        more pass. Try `0.2` to `0.6`, also one per model.
    agree: how many models must find an entry important. Try `1` to `3`; 1 only drops what nobody needs.
    scale: multiplies what is kept of the sum. Try `0.2` to `0.6`.

Example:
    merge: {consensus: {threshold: 0.4, agree: 2, scale: 0.5}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from smelt.methods.method import PerModel, Positive, Stack, merge_method

if TYPE_CHECKING:
    from torch import Tensor


@merge_method(
    "consensus",
    paper="2405.07813",
    stretches=True,
    exempt={"copies": "a sum of n equal changes is n changes"},
    latex=(
        r"T = \sum_i d_i \\ m_i = \left[\,|d_i| \ge threshold_i\, |T - d_i|\,\right] \\ "
        r"out = base + scale \cdot T \left[\textstyle\sum_i m_i \ge agree\right]"
    ),
)
def consensus(
    deltas: Stack,
    *,
    threshold: PerModel[Positive] = 0.4,
    agree: Annotated[int, Field(ge=1)] = 2,
    scale: float = 0.3,
) -> Tensor:
    total = deltas.sum(0)
    others = (total - deltas).abs_().mul_(threshold)
    votes = (deltas.abs() >= others).sum(0)
    return total * (votes >= agree) * scale
