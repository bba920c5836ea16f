"""Products of tall float32 matrices in float64: the arithmetic below spectral.py and the methods that rest on it.

A float64 copy of a layer is as large as two models of it, so matrices are converted a strip of rows at a time. The
strips are the same on every machine, and so is the order of every sum.

A Gram matrix is symmetric: `gram` works out its lower triangle, in blocks, for little more than half the operations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

__all__ = ["gram", "image", "mirrored", "product", "strips"]

_STRIP = 1 << 19
"""Numbers in a strip: 4 MB. Smaller strips make slower products; with larger ones the heap has holes of their size."""

_BLOCK = 256
"""Columns of a block of a Gram matrix: with 2,048 columns, 9/16 of the operations of the whole at its full speed."""

_GAIN = 4.0
"""Up to which gain a product is done in float32: its error then stays below 1e-6 of its length."""


def strips(matrix: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """The rows of [rows, columns], or of the sum of [models, rows, columns]: which, and what they hold in float64.

    All strips lie in the same memory: keep none.
    """
    import torch

    *_, rows, columns = matrix.shape
    step = max(1, _STRIP // max(1, columns))
    room = None
    for start in range(0, rows, step):
        place = slice(start, min(rows, start + step))
        first, *others = matrix[:, place] if matrix.ndim == 3 else [matrix[place]]
        if room is None:
            room = strip = first.to(torch.float64, copy=True)
        else:
            strip = room[: len(first)].copy_(first)
        for other in others:
            strip += other
        yield place, strip


def gram(matrix: Tensor) -> Tensor:
    """The lower triangle of A^T A in float64, of a matrix A or of the sum A of a stack. What is above means nothing."""
    import torch

    columns = matrix.shape[-1]
    total = torch.zeros(columns, columns, dtype=torch.float64, device=matrix.device)
    for _, strip in strips(matrix):
        for start in range(0, columns, _BLOCK):
            stop = min(columns, start + _BLOCK)
            total[start:stop, :stop].addmm_(strip[:, start:stop].mT, strip[:, :stop])
    return total


def mirrored(lower: Tensor) -> Tensor:
    """The symmetric matrix with this lower triangle, in the same memory."""
    upper = lower.tril(-1).mT
    return lower.tril_().add_(upper)


def image(matrix: Tensor, vectors: Tensor, out: Tensor | None = None) -> Tensor:
    """A @ vectors in float64, of a matrix A or of the sum A of a stack."""
    import torch

    if out is None:
        out = torch.empty(matrix.shape[-2], vectors.shape[1], dtype=torch.float64, device=matrix.device)
    for place, strip in strips(matrix):
        torch.mm(strip, vectors, out=out[place])
    return out


def product(left: Tensor, right: Tensor, out: Tensor, *, gain: Tensor) -> Tensor:
    """Fill `out` with left @ right; `left` may be a stack, for its sum. `out` is float32, and may be a view.

    `gain` says how much longer the factors are than what they make, about 1 for factors that do not cancel. If they
    cancel, the product of rounded factors is mostly their rounding, so it is done in float64. If not, float32 is as
    good as the result's own rounding in half the time. Only on a CPU: elsewhere "float32" may be told to mean less.
    """
    import torch

    dtype = torch.float32 if gain <= _GAIN and out.device.type == "cpu" else torch.float64
    right = right.to(dtype)
    for place, strip in strips(left):
        if dtype == out.dtype:
            torch.mm(strip.to(dtype), right, out=out[place])
        else:
            out[place] = strip @ right
    return out
