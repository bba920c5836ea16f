"""Linear layers that answer as several others do on their own inputs: least squares from Gram matrices.

Layer i maps inputs x to W_i x, and G_i is the mean of x x^T over the inputs of its own data. The one matrix W that is
nearest to all answers at once, sum_i E|W x - W_i x|^2, solves W (sum_i G_i) = sum_i W_i G_i. Everything is float64 and
solved by Cholesky on a matrix that is first scaled to a unit diagonal, so that inputs of very different size cost no
digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from smelt.errors import NumericalError

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["gram_mean"]

_NOISE = 4 * 2.0**-23
"""Of a Gram matrix with a unit diagonal, whatever it is stored in: the inputs that it sums were float32."""


def gram_mean(
    weights: Tensor | Sequence[Tensor], grams: Tensor | Sequence[Tensor], *, reduction: float, ridge: float
) -> Tensor:
    """W = sum_i W_i H_i (sum_i H_i)^-1 in float64, for `weights` [models, out, in] and `grams` [models, in, in].

    H_i is G_i with its off-diagonals times `reduction` and `ridge` times the mean diagonal of all G on the diagonal.
    Every model gets the same ridge, so it draws W to the plain mean of the weights: an input that no data ever used
    has the mean of its columns. Raises NumericalError where the sum is singular all the same.
    """
    import torch

    mean = _mean(weights)
    level = float(_mean([gram.diagonal() for gram in grams]).mean())
    added = ridge * (level if level > 0 else 1.0)  # no input at all: any ridge gives the mean
    together, pull = torch.zeros_like(_wide(grams[0])), torch.zeros_like(mean)
    for weight, gram in zip(weights, grams, strict=True):
        reduced = _reduced(gram, reduction, added)
        together.add_(reduced)
        pull.addmm_(_wide(weight) - mean, reduced)
    return mean.add_(_solve(pull, together, _NOISE))


def _wide(tensor: Tensor) -> Tensor:
    import torch

    return tensor.to(torch.float64)


def _mean(rows: Tensor | Sequence[Tensor]) -> Tensor:
    first, *rest = rows
    total = _wide(first).clone()
    for row in rest:
        total.add_(row)
    return total.div_(len(rest) + 1)


def _reduced(gram: Tensor, reduction: float, added: float) -> Tensor:
    wide = _wide(gram)
    reduced = wide * reduction
    reduced.diagonal().copy_(wide.diagonal() + added)
    return reduced


def _solve(right: Tensor, matrix: Tensor, noise: float) -> Tensor:
    """X with X @ matrix = right. A pivot below `noise` of its own input is rounding of the data, not a direction."""
    import torch

    size = matrix.diagonal().sqrt()
    if not bool((size > 0).all()):
        raise NumericalError(_singular("an input that is zero in all data"))
    factor, failed = torch.linalg.cholesky_ex(matrix / size / size[:, None])
    if int(failed) or float(factor.diagonal().min()) ** 2 < noise:
        raise NumericalError(_singular("inputs that are combinations of one another in all data"))
    return torch.cholesky_solve((right / size).mT, factor).mT / size


def _singular(why: str) -> str:
    return (
        f"the sum of the models' Gram matrices is singular ({why}); measure them on more examples, "
        "or give a larger `ridge` or a smaller `reduction`"
    )
