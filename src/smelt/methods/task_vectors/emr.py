"""EMR: elect one shared change, mask it for each task, rescale it to the task's size.

    s = sign(sum_i d_i)      u = s * max_i |d_i| [sign d_i = s]                       the shared change
    m_i = [d_i u > 0]        l_i = sum |d_i| / sum |m_i u|    over the whole model    for one task

Huang et al. 2024, arXiv:2405.17461. Without `task` the result is base + u; with it, base + l_i m_i u: that task's
model from the shared change, one bit per entry and one number.

Use it with `task`, where it is known which task comes: from one shared change and a mask of one bit per entry each
task gets nearly its own expert back. Avoid it without `task`: the shared change alone takes the largest magnitude at
every entry, and in clip8 stood below task arithmetic.

Its parameters:
    task: the name of the model whose task the output is for; left out, the output is the shared change alone. Try one
        of the recipe's models, such as `digits`.

Example:
    merge: {emr: {task: digits}}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.methods.method import ModelName, Stack, merge_method
from smelt.ops.block import Block
from smelt.ops.fold import Sum
from smelt.ops.signs import agreeing, elected_sign

if TYPE_CHECKING:
    from torch import Tensor


def _shared(deltas: Stack) -> Tensor:
    sign = elected_sign(deltas, "mass", "base")
    return agreeing(deltas, sign).amax(0).mul_(sign)


def _rescale(task: str | None) -> Sum | None:
    def sizes(block: Block) -> Tensor:
        import torch

        shared = _shared(block.stack)
        masked = shared * (block.stack * shared > 0)
        return torch.stack([block.stack, masked]).abs().flatten(2).sum(-1, dtype=torch.float64)

    def ratios(total: Tensor) -> Tensor:
        import torch

        return torch.where(total[1] > 0, total[0] / total[1].clamp_min(1e-300), torch.zeros_like(total[0]))

    return Sum(sizes, ratios, scope="model") if task is not None else None


@merge_method(
    "emr",
    paper="2405.17461",
    prepare=_rescale,
    latex=(
        r"s = sign\sum_i d_i \\ u = s \cdot \max_i |d_i|\,[sign\, d_i = s] \\ m_i = [d_i\, u > 0] \\ "
        r"l_i = \frac{\sum |d_i|}{\sum |m_i\, u|} \\ out_i = base + l_i\, m_i\, u"
    ),
)
def emr(deltas: Stack, ratios: Tensor | None, models: tuple[str, ...], *, task: ModelName | None = None) -> Tensor:
    shared = _shared(deltas)
    if task is None or ratios is None:
        return shared
    index = models.index(task)
    return shared * (deltas[index] * shared > 0) * float(ratios[index])
