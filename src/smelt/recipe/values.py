"""Parameter values that may vary: over depth, by tensor name, by model.

    0.5                                        one number everywhere
    {depth: [0, 0.5, 1]}                       linear interpolation from the first block to the last
    {depth: [0, 0.5, 1], outside: 0}           ... and this for what lies outside the blocks
    [{filter: "*.mlp.*", value: 0.3}, {value: 1}]   the first entry whose pattern matches the tensor's name
    {cars: 0.2, birds: 0.8}   [0.2, 0.8]       one per model, for parameters that are per model

A bare list for a parameter that is not per model is short for {depth: [...]}. Values nest: a model's value may
vary over depth, and so may a filter's.
"""

from __future__ import annotations

import fnmatch
import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from smelt.errors import RecipeError, nearest, unknown
from smelt.files.schema import given_in, reason_of

if TYPE_CHECKING:
    from smelt.methods import Stage
    from smelt.methods.method import Parameter

__all__ = ["Spot", "check", "chosen", "constant", "matches", "normalized", "patterns_in", "resolve", "skip_remedy"]


@lru_cache(maxsize=4096)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))


def matches(pattern: str, name: str) -> bool:
    """Shell patterns over whole names: `*` any run of letters, `?` one, `[ab]` a set."""
    return _compiled(pattern).match(name) is not None


def chosen(name: str, include: Sequence[str], skip: Sequence[str]) -> bool:
    """Whether a tensor is among those that the patterns `include` name (all, where none are given) and `skip` not."""
    wanted = not include or any(matches(pattern, name) for pattern in include)
    return wanted and not any(matches(pattern, name) for pattern in skip)


def skip_remedy(key: str, of: str = "the reference model", *, module: bool = False) -> str:
    """What `skip` does about a tensor, or about all of its `module`, in the words that every error has for it."""
    stem, dot, _ = key.rpartition(".")
    pattern = f"{glob.escape(stem)}.*" if module and dot else glob.escape(key)
    return f"`skip: {pattern}` takes that of {of} as it is"


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
            near = nearest(name, stage.parameters)
            hint = f" (did you mean {near!r}?)" if near else ""
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
