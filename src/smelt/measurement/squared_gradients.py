"""Squared gradients of single examples, summed: from a layer's inputs x [examples, tokens, in] and the gradients
δ [examples, tokens, out] of its outputs, without a gradient per example ever lying in memory.

    gradient of the weight     g_oi = sum_t δ_to x_ti
    its square                 g_oi^2 = sum_{t,u} (δ_to δ_uo) (x_ti x_ui)

The second line is one large matrix product over all examples and pairs of tokens, and the sum over many δ of one
example (an exact Fisher has one per class) can be taken inside its first factor: it then costs the same for three
classes as for three hundred. With few δ or many tokens squaring g itself is quicker, and that is what is done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn

__all__ = ["GradientScratch", "LayerSquares", "delta_rows", "known_layer", "pairs_pay", "squares_of"]

_TOGETHER = 1 << 16
"""Elements below which gradients of several examples are computed at once; above, the calls cost nothing."""


class LayerSquares(Protocol):
    """The growing sums of one layer for one batch."""

    def add(self, deltas: Sequence[Tensor]) -> None:
        """Gradients by the outputs, each [examples, tokens, out]."""

    def result(self) -> dict[str, Tensor]:
        """The sums by the parameter's own name."""


def known_layer(module: nn.Module) -> bool:
    """Whether its gradients are known here. A class that overrides `forward` may do anything, and is not."""
    forward = type(module).forward
    if forward is nn.Conv2d.forward and isinstance(module, nn.Conv2d):
        return module.groups == 1 and module.padding_mode == "zeros" and not isinstance(module.padding, str)
    return forward in (nn.Linear.forward, nn.LayerNorm.forward)


class GradientScratch:
    """Memory that is used again: fresh pages for every batch would cost as much as the arithmetic."""

    def __init__(self) -> None:
        self._kept: dict[str, Tensor] = {}

    def take(self, name: str, like: Tensor, *shape: int) -> Tensor:
        """An uninitialised tensor; what was taken before under this name is lost."""
        count = math.prod(shape)
        if name not in self._kept or self._kept[name].numel() < count:
            self._kept[name] = like.new_empty(count)
        return self._kept[name][:count].view(shape)


def squares_of(
    name: str, module: nn.Module, inputs: Sequence[Tensor], rank: int, scratch: GradientScratch
) -> LayerSquares:
    """Empty sums for a layer that was called with these inputs; `rank` δ per example will come."""
    if isinstance(module, nn.LayerNorm):
        return NormSquares(module, torch.cat([_normal(module, x) for x in inputs], dim=1))
    return MatrixSquares(module, torch.cat([_rows(module, x) for x in inputs], dim=1), rank, name, scratch)


def delta_rows(module: nn.Module, delta: Tensor) -> Tensor:
    """The gradient of a layer's outputs, whatever their shape, as [examples, tokens, out]."""
    if isinstance(module, nn.Conv2d):
        return delta.flatten(1, -4).flatten(-2).mT.flatten(1, 2)
    width = math.prod(module.normalized_shape) if isinstance(module, nn.LayerNorm) else delta.shape[-1]
    return delta.reshape(len(delta), -1, width)


def pairs_pay(tokens: int, rank: int) -> bool:
    """Whether pairs of tokens are quicker than `rank` gradients per example. The numbers were measured on a CPU."""
    return tokens * (tokens + 1) < rank * (48 + 1.7 * tokens)


class MatrixSquares:
    """A linear layer, or a convolution as one over patches."""

    def __init__(self, module: nn.Module, inputs: Tensor, rank: int, name: str, scratch: GradientScratch):
        self._name, self._scratch = name, scratch
        assert isinstance(module, nn.Linear | nn.Conv2d)
        self._shape, self._has_bias = module.weight.shape, module.bias is not None
        self._inputs, self._rank = inputs, rank
        self._alive: Tensor | None = None
        self._products: Tensor | None = None
        self._weight = inputs.new_zeros(self._shape[0], inputs.shape[-1])
        self._bias = inputs.new_zeros(self._shape[0])

    def add(self, deltas: Sequence[Tensor]) -> None:
        if self._has_bias:
            for delta in deltas:
                self._bias.add_(delta.sum(dim=1).square_().sum(dim=0))
        deltas = self._alive_only(deltas)
        if not deltas[0].shape[1]:
            return
        if pairs_pay(deltas[0].shape[1], self._rank):
            self._add_products(deltas)
        else:
            self._add_squares(deltas)

    def result(self) -> dict[str, Tensor]:
        self._multiply()
        sums = {"weight": self._weight.clamp_(min=0).view(self._shape)}
        return {**sums, "bias": self._bias} if self._has_bias else sums

    def _alive_only(self, deltas: Sequence[Tensor]) -> Sequence[Tensor]:
        """Leave out tokens that no score depends on: after the last attention of a CLIP, all but one."""
        alive = _tokens_of(deltas[0]) if self._alive is None else self._alive
        if not bool(alive.all()):
            for delta in deltas:
                alive = alive | _tokens_of(delta)
        if self._alive is not None and not torch.equal(alive, self._alive):
            self._multiply()
        self._alive = alive
        return deltas if bool(alive.all()) else [delta[:, alive] for delta in deltas]

    def _add_products(self, deltas: Sequence[Tensor]) -> None:
        """products[n, o, t, u] += sum over the given δ of δ_nto δ_nuo."""
        examples, tokens, width = deltas[0].shape
        stacked = self._scratch.take("stacked", deltas[0], examples, width, len(deltas), tokens)
        for place, delta in enumerate(deltas):
            stacked[:, :, place] = delta.mT
        flat = stacked.view(examples * width, len(deltas), tokens)
        if self._products is None:
            self._products = self._scratch.take(self._name, flat, examples * width, tokens, tokens)
            torch.bmm(flat.mT, flat, out=self._products)
        else:
            self._products.baddbmm_(flat.mT, flat)

    def _multiply(self) -> None:
        """Move the products into the weight's sums, example by example so that the factors stay in the cache."""
        if self._products is None or self._alive is None:
            return
        inputs, (tokens, _) = self._inputs[:, self._alive], self._products.shape[1:]
        left, right = torch.triu_indices(tokens, tokens, device=inputs.device)
        places = left * tokens + right
        twice = torch.where(left == right, 1.0, 2.0)[:, None].to(inputs)  # a pair stands for its mirror image too
        for products, x in zip(self._products.view(len(inputs), -1, tokens * tokens), inputs, strict=True):
            self._weight.addmm_(products.index_select(1, places), x[left].mul_(x[right]).mul_(twice))
        self._products = None

    def _add_squares(self, deltas: Sequence[Tensor]) -> None:
        assert self._alive is not None
        inputs = self._inputs[:, self._alive]
        together = _TOGETHER // self._weight.numel()
        gradient = torch.empty_like(self._weight)
        for delta in deltas:
            if together > 1:
                for some, x in zip(torch.split(delta, together), torch.split(inputs, together), strict=True):
                    self._weight.add_(torch.bmm(some.mT, x).square_().sum(dim=0))
                continue
            for one, x in zip(delta, inputs, strict=True):
                torch.mm(one.mT, x, out=gradient)
                self._weight.addcmul_(gradient, gradient)


class NormSquares:
    """A layer norm: its scale multiplies the normalised inputs element by element."""

    def __init__(self, module: nn.LayerNorm, normal: Tensor):
        self._module, self._normal = module, normal
        self._weight, self._bias = normal.new_zeros(normal.shape[-1]), normal.new_zeros(normal.shape[-1])

    def add(self, deltas: Sequence[Tensor]) -> None:
        for delta in deltas:
            self._weight.add_((delta * self._normal).sum(dim=1).square_().sum(dim=0))
            self._bias.add_(delta.sum(dim=1).square_().sum(dim=0))

    def result(self) -> dict[str, Tensor]:
        shape = self._module.normalized_shape
        sums = {"weight": self._weight.view(shape), "bias": self._bias.view(shape)}
        return {name: sums[name] for name, _ in self._module.named_parameters(recurse=False)}


def _tokens_of(delta: Tensor) -> Tensor:
    """Which tokens have a gradient at all."""
    return (delta != 0).any(dim=2).any(dim=0)


def _rows(module: nn.Module, inputs: Tensor) -> Tensor:
    if not isinstance(module, nn.Conv2d):
        return inputs.reshape(len(inputs), -1, inputs.shape[-1])
    given: Tensor = inputs.flatten(0, -4)
    assert not isinstance(module.padding, str)  # known_layer
    size = (module.weight.shape[2], module.weight.shape[3])
    patches = nn.functional.unfold(given, size, module.dilation, module.padding, module.stride)
    return patches.view(len(inputs), -1, *patches.shape[1:]).mT.flatten(1, 2)


def _normal(module: nn.LayerNorm, inputs: Tensor) -> Tensor:
    shape = list(module.normalized_shape)
    return nn.functional.layer_norm(inputs, shape, eps=module.eps).reshape(len(inputs), -1, math.prod(shape))
