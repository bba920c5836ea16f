"""The coefficients of whole models that a published method ends with, so that their predictions can be blended alike.

    base + Σ_i λ_i (θ_i - base)  =  (1 - Σ_i λ_i) base + Σ_i λ_i θ_i

the same vector of coefficients, the base's among them, blends features. Where a method has several coefficients for a
model (one for each tensor; gates of each block), their mean is taken.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from smelt.errors import RecipeError

if TYPE_CHECKING:
    from torch import Tensor

    from smelt.recipe.schema import Recipe

__all__ = ["coefficients", "heard_gates"]


def coefficients(recipe: Recipe) -> list[float]:
    """(base, expert, expert, …) of a recipe that needs no data any more."""
    names = list(recipe.pool.models)
    if len(recipe.merge) != 1:
        raise RecipeError("a pipeline of several stages has no coefficients of whole models")
    (call,) = recipe.merge
    if call.name == "average":
        return [0.0, *_shares(call.parameters.get("weights"), names)]
    if call.name == "task_arithmetic":
        weights = call.parameters.get("weights") or {}
        scale = float(call.parameters.get("scale", 1.0))
        own = [scale * _mean(weights.get(name, 1.0)) for name in names]
        return [1 - sum(own), *own]
    raise RecipeError(f"{call.name} has no coefficients of whole models")


def _shares(weights: Mapping[str, Any] | None, names: Sequence[str]) -> list[float]:
    own = [float(weights[name]) if weights else 1.0 for name in names]
    return [one / sum(own) for one in own]


def _mean(weight: Any) -> float:
    """A number, or the mean over the tensors that a list of filters names; its last entry is for all the others."""
    if not isinstance(weight, list):
        return float(weight)
    named = [float(one["value"]) for one in weight if "filter" in one]
    return sum(named) / len(named)


@contextmanager
def heard_gates(routers: Mapping[str, Any]) -> Iterator[list[Tensor]]:
    """What every router says in the `with`, picture by picture, in the order of their calls."""
    heard: list[Tensor] = []
    handles = [
        router.register_forward_hook(lambda module, inputs, gates: heard.append(gates.detach()))
        for router in routers.values()
    ]
    try:
        yield heard
    finally:
        for handle in handles:
            handle.remove()
