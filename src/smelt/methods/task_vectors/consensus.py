"""Consensus: keep the entries of the summed change that at least `agree` models find important.

    T = sum_i d_i      m_i = [|d_i| >= threshold_i |T - d_i|]      out = base + scale * T where sum_i m_i >= agree

TALL masks, Wang et al. 2024, arXiv:2405.07813. `threshold` may be one per model, as MergeBench tunes it.
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
