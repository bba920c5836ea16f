"""A linear layer whose weights are each sample's own: base plus that sample's mixture of the experts' changes.

    y_s = x_s (W + Σ_i g_si D_i)ᵀ        x [samples, tokens, in]   g [samples, experts]   D [experts, out, in]

Two ways give these numbers: merge the weights of each sample and apply them (`n + tokens` multiplications per weight
and sample), or apply every expert to every token (`(n + 1) · tokens`). The first needs a fifth of the arithmetic of the
second with eight experts and 17 tokens, and measured it is 3 to 5 times quicker; it never needs more. A few rows of a
few samples are merged at a time, so that merged weights are used while they are in cache and never fill the memory.
The changes are constants: gradients are those of `x` and `g`, from weights that are merged once more on the way back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

__all__ = ["mixed_linear"]

_SAMPLES = 16
_CACHE = 6 << 20
"""Bytes of merged weights at a time on a CPU. More than a second-level cache, since longer runs of rows suit the
multiplication better (measured: 4, 8, 16, 32 samples and 0.5 to 6 MiB); the same bytes are filled again and again."""
_ROWS = 64
"""Runs of rows are multiples of this, which suits the multiplication too."""
_DEVICE = 256 << 20
"""Bytes of merged weights at a time elsewhere, where one large multiplication is better than many small ones."""


def mixed_linear(x: Tensor, gates: Tensor, weight: Tensor, deltas: Tensor) -> Tensor:
    """`x` [samples, tokens, in] through each sample's own weights; [samples, tokens, out].

    `gates` [samples, experts], `weight` [out, in]; `deltas` [experts, out, in] may be in a narrower format.
    """
    y: Tensor = _MixedLinear.apply(x, gates.to(x.dtype), weight, deltas)  # type: ignore[no-untyped-call]
    return y


class _MixedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, gates: Tensor, weight: Tensor, deltas: Tensor) -> Tensor:
        ctx.save_for_backward(x, gates, weight, deltas)
        blocks = _Blocks(x, weight, deltas)
        y = x.new_empty(*x.shape[:2], len(weight))
        own = blocks.buffer()
        for rows, base, changes in blocks.rows():
            for some in blocks.samples():
                merged = _merge(gates[some], base, changes, own)
                torch.bmm(x[some], merged.transpose(1, 2), out=y[some, :, rows])
        return y

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, gates, weight, deltas = ctx.saved_tensors
        blocks = _Blocks(x, weight, deltas)
        dx = torch.zeros_like(x) if ctx.needs_input_grad[0] else None
        dg = torch.zeros_like(gates) if ctx.needs_input_grad[1] else None
        own = blocks.buffer()
        for rows, base, changes in blocks.rows():
            for some in blocks.samples():
                dy = grads[0][some, :, rows]
                if dx is not None:
                    dx[some].baddbmm_(dy, _merge(gates[some], base, changes, own))
                if dg is not None:
                    dw = _shaped(own, len(dy), base)
                    torch.bmm(dy.transpose(1, 2), x[some], out=dw)
                    dg[some] += _products(dw, changes)
        return dx, dg, None, None


def _merge(gates: Tensor, base: Tensor, changes: Tensor, own: Tensor) -> Tensor:
    """The same rows of every sample's weights, [samples, rows, in], in the room given."""
    merged = _shaped(own, len(gates), base)
    torch.addmm(base.reshape(1, -1), gates, changes, out=merged.flatten(1))
    return merged


def _products(dw: Tensor, changes: Tensor) -> Tensor:
    """<dw_s, D_i> of every sample and expert, [samples, experts]."""
    if dw.device.type == "cpu":
        return dw.flatten(1) @ changes.T
    # One sum over millions of numbers for a handful of results leaves a GPU idle: a sum for each row, then over rows.
    rows = changes.view(len(changes), *dw.shape[1:])
    return torch.bmm(dw.transpose(0, 1), rows.permute(1, 2, 0)).sum(0)


def _shaped(own: Tensor, samples: int, base: Tensor) -> Tensor:
    return own[: samples * base.numel()].view(samples, *base.shape)


class _Blocks:
    """How the work on one layer is cut: runs of output rows, and of samples inside each."""

    def __init__(self, x: Tensor, weight: Tensor, deltas: Tensor):
        self._x, self._weight, self._deltas = x, weight, deltas
        on_cpu = x.device.type == "cpu"
        self._step = max(1, min(_SAMPLES, len(x)) if on_cpu else len(x))
        height = (_CACHE if on_cpu else _DEVICE) // (self._step * weight.shape[1] * weight.element_size())
        self._height = min(len(weight), max(1, height - height % _ROWS if height > _ROWS else height))

    def buffer(self) -> Tensor:
        """Memory for the merged weights of one block."""
        return self._x.new_empty(self._step * self._height * self._weight.shape[1])

    def rows(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Which rows, the base's [rows, in], and the experts' changes flat [experts, rows · in]."""
        for start in range(0, len(self._weight), self._height):
            rows = slice(start, min(start + self._height, len(self._weight)))
            yield rows, self._weight[rows], self._deltas[:, rows].flatten(1).to(self._weight.dtype)

    def samples(self) -> Iterator[slice]:
        for start in range(0, len(self._x), self._step):
            yield slice(start, min(start + self._step, len(self._x)))
