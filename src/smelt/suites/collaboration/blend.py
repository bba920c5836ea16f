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
    from smelt.methods import stages

    if len(recipe.merge) != 1:
        raise RecipeError("a pipeline of several stages has no coefficients of whole models")
    (call,) = recipe.merge
    if call.name not in ("average", "task_arithmetic"):
        raise RecipeError(f"{call.name} has no coefficients of whole models")
    words = {word.name: word.default for word in stages[call.name].parameters.values()} | call.parameters
    own = _weights(words["weights"], list(recipe.pool.models))
    if words["normalize"]:
        own = [one / sum(own) for one in own]
    if call.name == "average":
        return [0.0, *own]
    own = [_number(words["scale"]) * one for one in own]
    return [1 - sum(own), *own]


def _weights(value: Any, names: Sequence[str]) -> list[float]:
    """One for each model, from any spelling that a recipe knows: a number, a list, a table by name, filters."""
    if isinstance(value, Mapping) and "depth" not in value:
        return [_number(value[name]) for name in names]
    if isinstance(value, list | tuple) and not any(isinstance(one, Mapping) for one in value):
        return [_number(one) for one in value]
    return [_number(value)] * len(names)


def _number(value: Any) -> float:
    """A number, or the mean over the tensors that a list of filters names; its last entry is for all the others."""
    if isinstance(value, list | tuple) and value and all(isinstance(one, Mapping) for one in value):
        named = [one["value"] for one in value if one.get("filter", "*") != "*"] or [value[-1]["value"]]
        return sum(map(_number, named)) / len(named)
    if isinstance(value, int | float):
        return float(value)
    raise RecipeError(f"a coefficient that varies over depth is none of a whole model: {value!r}")


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
