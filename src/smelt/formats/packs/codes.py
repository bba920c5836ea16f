"""A change in few numbers: whole-number codes with one scale per row, or two thin matrices. Tensors in, tensors out.

Codes are symmetric: with b bits a code is a whole number from -L to L, L = 2^(b-1) - 1 (1, 7 or 127), and stands for
code * scale. Stored, L is added to make it positive, and the codes of a row lie side by side in its bytes, the first
in the lowest bits; each row begins with a fresh byte.

The scale of a row: the largest entry over L wastes codes on a few outliers, so ten smaller clipping points are tried
too. For codes q of a row d the best scale is <d,q> / <q,q> and explains <d,q>^2 / <q,q> of the row's square; the
clipping point that explains most wins, and the codes are rounded once more with its scale. On Gaussian rows of 384
this takes the relative error from 0.132 to 0.111 with 4 bits and from 0.83 to 0.43 with 2; 8 bits gain nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from smelt.ops.spectral import svd

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["decode", "encode", "factorise", "levels", "quantise", "row_bytes"]

_CLIPS = tuple(n / 10 for n in range(10, 0, -1))


def levels(bits: int) -> int:
    """The largest code."""
    return (1 << (bits - 1)) - 1


def row_bytes(columns: int, bits: int) -> int:
    return -(-columns * bits // 8)


def quantise(rows: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """(codes, scales) of a float32 matrix; the codes are whole numbers as float32. A row of zeros has scale 0."""
    import torch

    largest = rows.abs().amax(dim=1, keepdim=True)
    unit = torch.where(largest > 0, rows / largest, 0.0)
    codes, work = torch.empty_like(unit), torch.empty_like(unit)
    top = levels(bits)
    best, explained = torch.zeros_like(largest), torch.full_like(largest, -1.0)
    for clip in _CLIPS:
        scale, share = _fit(unit, torch.mul(unit, top / clip, out=codes).round_().clamp_(-top, top), work)
        best, explained = torch.where(share > explained, scale, best), torch.maximum(share, explained)
    codes = torch.where(best > 0, unit / best, 0.0).round_().clamp_(-top, top)
    scale, _ = _fit(unit, codes, work)
    return codes, (scale * largest).squeeze(1)


def _fit(unit: Tensor, codes: Tensor, work: Tensor) -> tuple[Tensor, Tensor]:
    """The best scale for these codes, and how much of the row's square it explains."""
    import torch

    along = torch.mul(unit, codes, out=work).sum(dim=1, keepdim=True)
    square = torch.mul(codes, codes, out=work).sum(dim=1, keepdim=True).clamp_min_(1.0)
    return along / square, along.square() / square


def encode(codes: Tensor, bits: int) -> Tensor:
    """Codes side by side in bytes: (rows, columns) -> uint8 (rows, row_bytes)."""
    import torch

    rows, columns = codes.shape
    each = 8 // bits
    positive = torch.zeros(rows, row_bytes(columns, bits) * each, dtype=torch.uint8)
    positive[:, :columns] = (codes + levels(bits)).to(torch.uint8)
    parts = positive.view(rows, -1, each)
    packed = parts[:, :, 0].clone()
    for place in range(1, each):
        packed |= parts[:, :, place] << (bits * place)
    return packed


def decode(packed: Tensor, bits: int, columns: int) -> Tensor:
    """The codes back, as float32."""
    import torch

    if bits == 8:
        return packed.to(torch.float32).sub_(levels(bits))
    each, mask = 8 // bits, 2**bits - 1
    parts = torch.empty(*packed.shape, each, dtype=torch.uint8)
    for place in range(each):
        torch.bitwise_and(packed >> (bits * place), mask, out=parts[:, :, place])
    return parts.view(len(packed), -1)[:, :columns].to(torch.float32).sub_(levels(bits))


def factorise(change: Tensor, rank: int) -> tuple[Tensor, Tensor, Tensor]:
    """(up, down, scale) with change ~ scale * up @ down: half-precision factors whose largest direction has size 1."""
    import torch

    rows, columns = change.shape
    up = torch.zeros(rows, rank, dtype=torch.float16)
    down = torch.zeros(rank, columns, dtype=torch.float16)
    left, values, right = svd(change, top=rank)
    if not len(values):
        return up, down, torch.zeros(1)
    roots = (values / values[0]).sqrt()
    up[:, : len(values)] = (left * roots).half()
    down[: len(values)] = (roots[:, None] * right).half()
    return up, down, values[:1].float()
