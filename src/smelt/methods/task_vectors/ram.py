"""RAM: changes that only one model makes are kept whole, changes that several make are averaged over those.

    m_i = [|d_i| > epsilon]      out = base + sum_i m_i d_i / max(1, sum_i m_i)

Reinforced agent merging, arXiv:2601.13572. `ram_plus` also strengthens what is a model's own, by how much of that
model is shared in the tensor:   unique entries of i  *  1 + r * min(shared_i / unique_i, limit).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from smelt.methods.method import Positive, Stack, merge_method
from smelt.ops.block import Block
from smelt.ops.fold import Sum
from smelt.ops.geometry import mean_of_present

if TYPE_CHECKING:
    from torch import Tensor


@merge_method("ram", paper="2601.13572", exempt={"copies": "changes of at most epsilon are dropped, by definition"})
def ram(deltas: Stack, *, epsilon: Positive = 1e-5) -> Tensor:
    from torch.nn.functional import hardshrink

    return mean_of_present(hardshrink(deltas, epsilon))


def _sharing(r: float, limit: float, epsilon: float) -> Sum:
    def counts(block: Block) -> Tensor:
        import torch

        present = block.stack.abs() > epsilon
        several = present.sum(0) > 1
        shared = (present & several).flatten(1).sum(1)
        unique = (present & ~several).flatten(1).sum(1)
        return torch.stack([shared, unique])

    def factors(total: Tensor) -> Tensor:
        ratio = total[0] / total[1].clamp_min(epsilon)
        return ratio.clamp(0, limit).mul(r).add(1)

    return Sum(counts, factors)


@merge_method(
    "ram_plus",
    paper="2601.13572",
    prepare=_sharing,
    exempt={"copies": "changes of at most epsilon are dropped, by definition"},
)
def ram_plus(
    deltas: Stack,
    factors: Tensor,
    *,
    r: Annotated[float, Field(ge=0)] = 0.1,
    limit: Annotated[float, Field(ge=0)] = 0.2,
    epsilon: Positive = 1e-5,
) -> Tensor:
    from torch.nn.functional import hardshrink

    present = hardshrink(deltas, epsilon)
    count = present.sign().abs_().sum(0)
    column = factors.to(deltas).view(-1, *[1] * (deltas.ndim - 1))
    unique = (present * column).sum(0) * (count == 1)
    return unique + present.sum(0) / count.clamp(min=1.0) * (count > 1)
