"""RAM: changes that only one model makes are kept whole, changes that several make are averaged over those.

    m_i = [|d_i| > epsilon]      out = base + sum_i m_i d_i / max(1, sum_i m_i)

Reinforced agent merging, arXiv:2601.13572.

Use it for models that each changed few weights, as reinforcement learning does: what is one model's own is not divided
by the number of models. Avoid it for ordinary fine-tunes, which change nearly every weight: then every entry is shared,
and the result is little more than the average, as in clip8.

Its parameters:
    epsilon: changes up to this size count as none, in the units of the weights. Try `1e-6` to `1e-4`; it should lie
        above the rounding of the checkpoints and below the changes that matter.

Example:
    merge: {ram: {epsilon: 1.0e-5}}
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


@merge_method(
    "ram",
    paper="2601.13572",
    exempt={"copies": "changes of at most epsilon are dropped, by definition"},
    latex=r"m_i = [\,|d_i| > epsilon\,] \\ out = base + \frac{\sum_i m_i d_i}{\max\left(1, \sum_i m_i\right)}",
)
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
    latex=(
        r"f_i = 1 + r \cdot \min\left(\frac{shared_i}{unique_i}, limit\right) \\ "
        r"out = base + f_i\, d_i \quad \text{where only } i \text{ changed} \\ "
        r"out = base + mean_i\, d_i \quad \text{where several did}"
    ),
)
def ram_plus(
    deltas: Stack,
    factors: Tensor,
    *,
    r: Annotated[float, Field(ge=0)] = 0.1,
    limit: Annotated[float, Field(ge=0)] = 0.2,
    epsilon: Positive = 1e-5,
) -> Tensor:
    """RAM+: RAM that strengthens what is a model's own, by how much of that model is shared in the tensor.

        f_i = 1 + r * min(shared_i / unique_i, limit)        entries that only model i changed are multiplied by f_i

    arXiv:2601.13572. shared_i and unique_i count the entries that model i changed with others and alone.

    Use it in place of `ram` where models share much of a tensor, so that averaging takes from each of them. Avoid it
    for ordinary fine-tunes, as `ram`: where every weight is shared there is nothing to strengthen.

    Its parameters:
        r: how strongly the models' own entries are raised. Try `0.05` to `0.5`; at 0 nothing is raised.
        limit: the largest ratio of shared to own entries that counts. Try `0.1` to `1`.
        epsilon: changes up to this size count as none, in the units of the weights. Try `1e-6` to `1e-4`.

    Example:
        merge: {ram_plus: {r: 0.1, limit: 0.2}}
    """
    from torch.nn.functional import hardshrink

    present = hardshrink(deltas, epsilon)
    count = present.sign().abs_().sum(0)
    column = factors.to(deltas).view(-1, *[1] * (deltas.ndim - 1))
    unique = (present * column).sum(0) * (count == 1)
    return unique + present.sum(0) / count.clamp(min=1.0) * (count > 1)
