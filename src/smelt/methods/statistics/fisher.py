"""Fisher merging: the mean of the models in which each weight counts as much as its model's answers depend on it.

    out = sum_i a_i x_i / sum_i a_i          a_i = w_i c_i (F_i + floor)

F_i is the diagonal of model i's Fisher information on its own data, element by element: `smelt measure fisher`.
`balance: none` is c_i = 1; `balance: norm` is c_i = 1 / |F_i| over all merged tensors, so that no model wins because
its loss is steeper everywhere. Tensors without statistics (frozen while measuring) are averaged with the same weights.

Matena & Raffel 2021, arXiv:2111.09832. The floor is absolute, as in FusionBench (`minimal_fisher_weight`, 1e-6): mind
its size. Where all F are far below it, and the Fisher of a confident model often is, the merge is close to the plain
average; give a smaller `floor` there. Equal statistics give the average.
Differs from FusionBench: the statistic itself, which is exact per example by default (see `smelt measure`).

Use it where a few hundred examples of each task are at hand and every model should decide about the weights that it
depends on. Avoid it where it must be quick or sure: measuring takes backward passes, and in clip8 it gained half a
point over averaging. `regmean` sees the same examples, costs less to measure, and stood above it in clip8 and llm5.

Its parameters:
    floor: is added to every Fisher value, so that weights nobody depends on are averaged. Try `1e-10` to `1e-6`; it
        should lie below most of the measured values.
    weights: how much each model counts besides; only the ratios matter. Try `1` for all, or `0.5` to `2` to favour
        some.
    balance: `none` takes the Fisher values as they are; `norm` divides each model's by their norm, so that none wins
        because its loss is steeper.

Example:
    merge: {fisher: {floor: 1.0e-10, balance: norm}}
    data: {split: train, examples: 256}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from smelt.errors import NumericalError
from smelt.methods.method import PerModel, Positive, Stack, merge_method
from smelt.ops.block import Block
from smelt.ops.fold import Sum
from smelt.ops.geometry import total

if TYPE_CHECKING:
    from torch import Tensor


def _norms(balance: Literal["none", "norm"]) -> Sum | None:
    return Sum(_squares, lambda squares: squares.sqrt(), scope="model") if balance == "norm" else None


def _squares(block: Block) -> Tensor:
    import torch

    assert block.statistics is not None
    norms: Tensor = torch.linalg.vector_norm(block.statistics.flatten(1), dim=1, dtype=torch.float64)
    return norms.square()


@merge_method(
    "fisher",
    space="weight",
    statistics="fisher",
    paper="2111.09832",
    prepare=_norms,
    latex=(
        r"out = \frac{\sum_i a_i x_i}{\sum_i a_i} \\ a_i = w_i c_i \left(F_i + floor\right) \\ "
        r"F_i = mean_{x} \sum_y p_i(y \mid x) \left(\frac{\partial \log p_i(y \mid x)}{\partial x_i}\right)^2"
    ),
)
def fisher(
    stack: Stack,
    statistics: Stack,
    norms: Tensor | None,
    models: tuple[str, ...],
    *,
    floor: Positive = 1e-6,
    weights: PerModel[Positive] = 1.0,
    balance: Literal["none", "norm"] = "none",
) -> Tensor:
    _refuse_negative(statistics, models)
    share = (statistics + floor).mul_(weights if norms is None else weights * _balanced(norms, models, weights))
    share.div_(total(share))  # before the product: the Fisher of a weight may be as small as 1e-20
    return total(share.mul_(stack))


def _balanced(norms: Tensor, models: tuple[str, ...], like: Tensor) -> Tensor:
    if float(norms.min()) == 0:
        name = models[int(norms.argmin())]
        raise NumericalError(f"the Fisher of {name} is zero everywhere, so it has no norm; write `balance: none`")
    return (norms.min() / norms).to(like.device, like.dtype).view_as(like)


def _refuse_negative(statistics: Stack, models: tuple[str, ...]) -> None:
    if float(statistics.min()) < 0:
        name = models[int(statistics.flatten(1).amin(1).argmin())]
        raise NumericalError(f"the statistics of {name} are negative here, which no Fisher is; measure them again")
