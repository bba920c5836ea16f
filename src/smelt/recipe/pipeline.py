"""From the stages that a recipe names to the stages that run: aliases resolved, order checked, values bound.

Values of parameters may vary: over depth, by tensor name, by model.

    0.5                                        one number everywhere
    {depth: [0, 0.5, 1]}                       linear interpolation from the first block to the last
    {depth: [0, 0.5, 1], outside: 0}           ... and this for what lies outside the blocks
    {blocks: [0.5, 0, 0.1, ...]}               by the blocks of a diffusion model; filters by the time it is planned
                                               (engine/plan/block_values.py)
    [{filter: "*.mlp.*", value: 0.3}, {value: 1}]   the first entry whose pattern matches the tensor's name
    {cars: 0.2, birds: 0.8}   [0.2, 0.8]       one per model, for parameters that are per model

A bare list for a parameter that is not per model is short for {depth: [...]}. Values nest: a model's value may
vary over depth, and so may a filter's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from smelt.caller import Blank, in_shell, is_recipe, pipeline, set_flag
from smelt.errors import RecipeError, did_you_mean, listed, unknown
from smelt.files.schema import given_in, reason_of
from smelt.methods import Stage, stages
from smelt.methods.aliases import ALIASES
from smelt.recipe.method_names import unknown_method
from smelt.recipe.patterns import matches
from smelt.recipe.schema import StageCall

if TYPE_CHECKING:
    from smelt.methods.method import Parameter

__all__ = [
    "BoundStage",
    "Spot",
    "bind",
    "check",
    "constant",
    "describe",
    "normalized",
    "patterns_in",
    "resolve",
    "route",
]


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
            composition = route(call)
            notes.append(f"{call.name} is {describe(composition)}")
        else:
            faults.append(unknown_method(call.name, [*stages, *ALIASES]))
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
        raise RecipeError(listed(faults))
    return bound, notes


def describe(composition: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """`[dare(density=0.1), ties(density=1.0)]`, or just the name where it is one stage without values."""
    words = [
        name + (f"({', '.join(f'{k}={v}' for k, v in values.items())})" if values else "")
        for name, values in composition
    ]
    return words[0] if len(words) == 1 else f"[{', '.join(words)}]"


def route(call: StageCall) -> list[tuple[str, dict[str, Any]]]:
    """The stages that a name from another tool stands for, with the parameters that are given to it."""
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
        last, names = bound[-1].stage.name, [b.stage.name for b in bound]
        typed = in_shell() and not is_recipe() and "density" in bound[-1].values  # which the method has, too
        own = f" with {set_flag(f'{last}.density', Blank('NUMBER'))}" if typed else ""
        return [f"{last} is a {kinds[-1]}, not a whole merge; put a method after it: {pipeline([*names, 'ties'])}{own}"]
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


def check(
    stage: Stage, given: Mapping[str, Any], pool: Sequence[str], models: Sequence[str] | None = None
) -> list[str]:
    """Every fault in a stage's parameters: unknown names, missing ones, values that their type refuses.

    `models` are those of the pool that the stage merges; all of them by default.
    """
    models = pool if models is None else models
    faults = []
    for name in given:
        if name not in stage.parameters:
            known = ", ".join(stage.parameters) or "none"
            hint = did_you_mean(name, stage.parameters)
            faults.append(f"{stage.name} has no parameter {name!r}{hint}; it has: {known}")
    for parameter in stage.parameters.values():
        if parameter.name not in given:
            if parameter.required:
                faults.append(f"{stage.name} needs a value for {parameter.name!r}")
            continue
        try:
            for leaf in _leaves(parameter, given[parameter.name], pool, models):
                parameter.adapter.validate_python(leaf)
                if parameter.names_model and leaf is not None and leaf not in models:
                    raise RecipeError(unknown("model", str(leaf), models))
        except ValidationError as error:
            fault = error.errors()[0]
            faults.append(f"{stage.name}.{parameter.name}: {reason_of(fault).lower()}, got {given_in(fault)}")
        except RecipeError as error:
            faults.append(f"{stage.name}.{parameter.name}: {error}")
    return faults


@dataclass(frozen=True, slots=True)
class Spot:
    """The tensor that a value is wanted for: its name, its depth, and whether it lies inside a block."""

    name: str
    depth: float
    inside: bool
    names: Mapping[str, str] = field(default_factory=dict)
    """What the tensor is called in a model, where that differs (layer slices)."""


def normalized(parameter: Parameter, value: Any, pool: Sequence[str]) -> Any:
    """The one spelling that the rest of the code knows: lists over depth as tables, lists per model by name."""
    if not _is_gradient_list(value):
        return value
    return dict(zip(pool, value, strict=True)) if parameter.per_model else {"depth": list(value)}


def resolve(parameter: Parameter, value: Any, spot: Spot, models: Sequence[str]) -> Any:
    """The value at one tensor: a scalar, or a list with one per model."""
    if not parameter.per_model:
        return parameter.adapter.validate_python(_at(value, spot))
    per_model = _by_model(value, models)
    spots = {model: replace(spot, name=spot.names.get(model, spot.name)) if spot.names else spot for model in models}
    return [parameter.adapter.validate_python(_at(per_model[model], spots[model])) for model in models]


def constant(value: Any) -> bool:
    """Whether a value is the same at every tensor."""
    if isinstance(value, Mapping):
        return "depth" not in value and all(constant(v) for v in value.values())
    return not isinstance(value, list | tuple)


def patterns_in(value: Any) -> Iterator[str]:
    """Every name filter inside a value."""
    if isinstance(value, Mapping):
        if "filter" in value:
            yield value["filter"]
        for inner in value.values():
            yield from patterns_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from patterns_in(inner)


def _is_gradient_list(value: Any) -> bool:
    return isinstance(value, list | tuple) and not any(isinstance(v, Mapping) for v in value)


def _is_filters(value: Any) -> bool:
    return (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(v, Mapping) and "value" in v for v in value)
    )


def _by_model(value: Any, models: Sequence[str]) -> dict[str, Any]:
    if isinstance(value, Mapping) and "depth" not in value:
        missing = [model for model in models if model not in value]
        if missing:
            raise RecipeError(f"no value for {', '.join(map(repr, missing))}; name every model, or give one number")
        return {model: value[model] for model in models}
    return dict.fromkeys(models, value)


def _leaves(parameter: Parameter, value: Any, pool: Sequence[str], models: Sequence[str]) -> Iterator[Any]:
    """Every scalar that a value can resolve to, so that each is validated; refuses malformed structure."""
    if parameter.per_model and _is_gradient_list(value) and len(value) != len(pool):
        raise RecipeError(
            f"a list gives one value per model ({len(pool)}), got {len(value)}; "
            "values over depth are written {depth: [...]}"
        )
    if parameter.per_model and isinstance(value, Mapping) and not value.keys() & {"depth", "value", "filter"}:
        strangers = [name for name in value if name not in pool]
        if strangers:
            raise RecipeError(unknown("model", str(strangers[0]), pool))
    value = normalized(parameter, value, pool)
    for inner in _by_model(value, models).values() if parameter.per_model else [value]:
        yield from _scalars(inner)


def _scalars(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        points = value.get("depth")
        if not isinstance(points, list | tuple) or not points or not value.keys() <= {"depth", "outside"}:
            raise RecipeError(f"expected {{depth: [numbers], outside: number}}, got {dict(value)!r}")
        numbers = [*points, *([value["outside"]] if "outside" in value else [])]
        if not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
            raise RecipeError(f"only numbers can vary over depth, got {numbers!r}")
        yield from points
        if "outside" in value:
            yield value["outside"]
    elif _is_filters(value):
        for entry in value:
            strange = entry.keys() - {"filter", "value"}
            if strange:
                raise RecipeError(f"a filter entry has `filter` and `value`, not {sorted(strange)[0]!r}")
            if not isinstance(entry.get("filter", "*"), str):
                raise RecipeError(f"a filter is a pattern of names, got {entry['filter']!r}")
            inner = entry["value"]
            yield from _scalars({"depth": inner} if _is_gradient_list(inner) else inner)
        if "filter" in value[-1] and value[-1]["filter"] != "*":
            raise RecipeError("the last entry of a list of filters must have no filter, for all other tensors")
    elif isinstance(value, list | tuple):
        raise RecipeError(f"expected a number, {{depth: [...]}} or a list of {{filter, value}}, got {value!r}")
    else:
        yield value


def _at(value: Any, spot: Spot) -> Any:
    if _is_filters(value):
        chosen = next(e["value"] for e in value if "filter" not in e or matches(e["filter"], spot.name))
        return _at({"depth": chosen} if _is_gradient_list(chosen) else chosen, spot)
    if isinstance(value, Mapping):
        if not spot.inside and "outside" in value:
            return value["outside"]
        return _interpolate(value["depth"], spot.depth)
    return value


def _interpolate(points: Sequence[float], depth: float) -> float:
    if len(points) == 1:
        return points[0]
    position = min(max(depth, 0.0), 1.0) * (len(points) - 1)
    left = min(int(position), len(points) - 2)
    share = position - left
    return points[left] * (1 - share) + points[left + 1] * share
