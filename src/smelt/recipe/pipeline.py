"""From the stages that a recipe names to the stages that run: aliases resolved, order checked, parameters checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from smelt.errors import RecipeError, unknown
from smelt.methods import Stage, stages
from smelt.methods.aliases import ALIASES
from smelt.recipe.schema import StageCall
from smelt.recipe.values import check, normalized

__all__ = ["BoundStage", "bind", "describe"]


@dataclass(frozen=True)
class BoundStage:
    """A stage and the values that the recipe gives its parameters, defaults filled in, not yet per tensor."""

    stage: Stage
    values: Mapping[str, Any]


def bind(
    calls: Sequence[StageCall], pool: Sequence[str], models: Sequence[str] | None = None
) -> tuple[list[BoundStage], list[str]]:
    """The pipeline that runs, and notes on what aliases became. Raises RecipeError with every fault.

    `models` are those of the pool that the pipeline merges; all of them by default.
    """
    models = pool if models is None else models
    faults: list[str] = []
    notes: list[str] = []
    bound: list[BoundStage] = []
    for call in calls:
        if call.name in stages:
            composition = [(call.name, dict(call.parameters))]
        elif call.name in ALIASES:
            composition = _route(call)
            notes.append(f"{call.name} is {describe(composition)}")
        else:
            faults.append(unknown("merge method", call.name, [*stages, *ALIASES]))
            continue
        for name, given in composition:
            stage = stages[name]
            found = check(stage, given, pool, models)
            faults.extend(found)
            defaults = {p.name: p.default for p in stage.parameters.values() if not p.required}
            values = given if found else {n: normalized(stage.parameters[n], v, pool) for n, v in given.items()}
            bound.append(BoundStage(stage, defaults | values))
    if not faults:
        faults.extend(_order_faults(bound))
    if faults:
        raise RecipeError(faults[0] if len(faults) == 1 else "".join(f"\n  - {f}" for f in ["", *faults])[5:])
    return bound, notes


def describe(composition: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """`[dare(density=0.1), ties(density=1.0)]`, or just the name where it is one stage without values."""
    words = [
        name + (f"({', '.join(f'{k}={v}' for k, v in values.items())})" if values else "")
        for name, values in composition
    ]
    return words[0] if len(words) == 1 else f"[{', '.join(words)}]"


def _route(call: StageCall) -> list[tuple[str, dict[str, Any]]]:
    composition = [(name, dict(fixed)) for name, fixed in ALIASES[call.name]]
    for name, value in call.parameters.items():
        takers = [values for stage, values in composition if name in stages[stage].parameters]
        free = [values for values in takers if name not in values]
        if not takers:
            known = ", ".join(dict.fromkeys(p for stage, _ in composition for p in stages[stage].parameters))
            raise RecipeError(f"{call.name} has no parameter {name!r}; it has: {known}")
        (free or takers)[0][name] = value
    return composition


def _order_faults(bound: Sequence[BoundStage]) -> list[str]:
    kinds = [b.stage.kind for b in bound]
    methods = [b.stage.name for b in bound if b.stage.kind == "method"]
    if not methods:
        last = bound[-1].stage.name
        return [f"{last} is a {kinds[-1]}, not a whole merge; put a method after it, e.g. [{last}, ties]"]
    if len(methods) > 1:
        return [f"a pipeline has one method, not {len(methods)} ({', '.join(methods)}); the rest are steps or wrappers"]
    position = kinds.index("method")
    faults = [
        f"{b.stage.name} is a wrapper and goes after the method" for b in bound[:position] if b.stage.kind == "wrapper"
    ]
    faults += [
        f"{b.stage.name} is a {b.stage.kind} and goes before the method"
        for b in bound[position + 1 :]
        if b.stage.kind != "wrapper"
    ]
    if kinds.count("basis") > 1:
        faults.append("a pipeline has at most one change of basis (knots or core_space)")
    return faults
