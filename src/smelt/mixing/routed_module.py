"""Surgery: in a module, the MLP of every block gets a router, and each of its linear layers the experts' changes.

Which sub-modules those are is a pattern of their names. Inside one, all `nn.Linear` layers are replaced; whatever
else it holds (activation, dropout, norms) stays. Gates travel from an MLP to its layers in a context variable, so
that several threads may run one module at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn

from smelt.errors import RecipeError, nearest
from smelt.mixing.mixed_linear import mixed_linear
from smelt.mixing.router import Router
from smelt.recipe.patterns import matches

__all__ = ["Routed", "find_routed", "install", "linear_keys", "width_of"]

_GATES: ContextVar[Tensor] = ContextVar("gates of the MLP that is running")


class Routed(nn.Module):
    """An MLP whose weights are chosen anew for each sample by its router."""

    def __init__(self, inner: nn.Module, router: Router):
        super().__init__()
        self.inner, self.router = inner, router

    def forward(self, hidden: Tensor, *rest: Any, **words: Any) -> Any:
        token = _GATES.set(self.router(hidden))
        try:
            return self.inner(hidden, *rest, **words)
        finally:
            _GATES.reset(token)


class _RoutedLinear(nn.Module):
    """A linear layer inside a routed MLP. `deltas` [experts, out, in] and `bias_deltas` [experts, out]."""

    deltas: Tensor
    bias_deltas: Tensor

    def __init__(self, linear: nn.Linear, deltas: Tensor, bias_deltas: Tensor | None):
        super().__init__()
        self.weight, self.bias = linear.weight, linear.bias
        self.register_buffer("deltas", deltas, persistent=False)
        self.register_buffer("bias_deltas", bias_deltas, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        gates = _GATES.get()
        if len(x) != len(gates):
            raise RecipeError(
                f"a routed layer got {len(x)} samples for {len(gates)} rows of gates: its MLP changes the first axis, "
                "which has to be the samples"
            )
        y = mixed_linear(x.flatten(1, -2) if x.ndim > 2 else x.unsqueeze(1), gates, self.weight, self.deltas)
        if self.bias is not None:
            own = torch.addmm(self.bias, gates.to(x.dtype), self.bias_deltas.to(x.dtype))
            y = y + own.unsqueeze(1)
        return y.view(*x.shape[:-1], y.shape[-1])


def find_routed(module: nn.Module, pattern: str) -> dict[str, nn.Module]:
    """The sub-modules that a pattern of names means, each with at least one linear layer; never one inside another."""
    names = [name for name, _ in module.named_modules() if name]
    found = [name for name in names if matches(pattern, name)]
    if not found:
        near = nearest(pattern, names)
        hint = f"did you mean {near!r}?" if near else f"there is, for example: {', '.join(names[:4])}"
        raise RecipeError(f"routed: no module is named like {pattern!r} ({hint})")
    inside = next((name for name in found if any(name.startswith(f"{other}.") for other in found)), None)
    if inside is not None:
        raise RecipeError(f"routed: {pattern!r} means {inside!r} and a module around it; write a narrower pattern")
    without = next((name for name in found if not _linears(module.get_submodule(name))), None)
    if without is not None:
        raise RecipeError(f"routed: {without!r} has no linear layer; name the MLPs, as `model.layers.*.mlp`")
    return {name: module.get_submodule(name) for name in found}


def linear_keys(mlps: Mapping[str, nn.Module]) -> list[str]:
    """The names of all weights and biases that are routed."""
    return [
        f"{_join(name, inner)}.{part}"
        for name, mlp in mlps.items()
        for inner, linear in _linears(mlp).items()
        for part in (("weight", "bias") if linear.bias is not None else ("weight",))
    ]


def width_of(mlp: nn.Module) -> int:
    """The width of an MLP's input: that of its first linear layer."""
    return int(next(iter(_linears(mlp).values())).in_features)


def install(
    module: nn.Module,
    mlps: Mapping[str, nn.Module],
    deltas: Mapping[str, Tensor],
    routers: Mapping[str, Router],
) -> dict[str, Router]:
    """Put routers and changes in place, on the module's device; `deltas` are stacked [experts, ...] by key."""
    placed = {}
    for name, mlp in mlps.items():
        device = next(mlp.parameters()).device
        inner = mlp
        for place, linear in _linears(mlp).items():
            key = _join(name, place)
            bias = deltas[f"{key}.bias"].to(device) if linear.bias is not None else None
            routed = _RoutedLinear(linear, deltas[f"{key}.weight"].to(device), bias)
            if place:
                _put(mlp, place, routed)
            else:
                inner = routed
        placed[name] = routers[name].to(device)
        _put(module, name, Routed(inner, placed[name]).train(mlp.training))
    return placed


def _put(module: nn.Module, name: str, new: nn.Module) -> None:
    parent, _, leaf = name.rpartition(".")
    setattr(module.get_submodule(parent), leaf, new)


def _linears(mlp: nn.Module) -> dict[str, nn.Linear]:
    return {name: one for name, one in mlp.named_modules() if isinstance(one, nn.Linear)}


def _join(*parts: str) -> str:
    return ".".join(part for part in parts if part)
