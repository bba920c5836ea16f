"""One trial of a stage: a pico pool merged through the whole engine, with the stage's own defaults or given parameters.

A step or basis stands before the plain mean of the changes, a wrapper after it. A stage that reads statistics gets
made-up ones, which belong to a model's name and go with it wherever it stands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args, get_origin
from unittest.mock import patch

from pydantic import ValidationError

from smelt.engine.plan.plan import Blocking
from smelt.methods import Stage, stages
from smelt.methods.method import Parameter
from smelt.ops.fold import Fold
from smelt.ops.order import Largest
from smelt.prepare.merge import merge
from smelt.testing.made_up import made_up
from smelt.testing.pico import Pico, State, pico

__all__ = [
    "EXAMPLES",
    "block_size",
    "count_for",
    "filled",
    "merged_by",
    "pipeline_of",
    "pool_for",
    "registered",
    "statistics_for",
    "sums_over_blocks",
    "variants",
]

EXAMPLES: dict[str, Any] = {"nearswap.t": 0.002, "slerp.t": 0.3}
"""Values by `stage.parameter` that the laws use instead of the default, where there is none or where it hides what
the law asks (slerp looks the same from both ends at 0.5). A parameter without default that is not listed gets the
first plain value that its type accepts."""

_MEAN = ("task_arithmetic", {"scale": 1.0, "normalize": True})


def variants(stage: Stage) -> list[dict[str, Any]]:
    """Parameters that take each other path through a stage: every option of a choice that is not its default."""
    return [
        {parameter.name: option}
        for parameter in stage.parameters.values()
        for option in _options(parameter)
        if option != parameter.default
    ]


def merged_by(stage: Stage, pool: Pico, /, *, words: Mapping[str, Any] | None = None, **parameters: Any) -> State:
    """`pool` merged by `stage` and its companion; `words` go to `smelt.merge` (threads, seed, ...)."""
    with registered(stage):
        try:
            words = {**statistics_for(stage, pool), **(words or {})}
            state = merge(pool.models, base=pool.base, method=pipeline_of(stage, parameters), **words)
        except Exception as error:
            raise AssertionError(f"{stage.name} could not merge: {type(error).__name__}: {error}") from error
    assert isinstance(state, dict)
    return state


@contextmanager
def block_size(elements: int) -> Iterator[None]:
    """Cut tensors into blocks of this many elements, two to a span."""
    with patch.object(Blocking, "for_device", lambda kind: Blocking(elements, 2)):
        yield


@contextmanager
def registered(stage: Stage) -> Iterator[None]:
    """The registry with this very stage under its name."""
    before = stages.get(stage.name)
    stages[stage.name] = stage
    try:
        yield
    finally:
        if before is None:
            del stages[stage.name]
        else:
            stages[stage.name] = before


def pipeline_of(stage: Stage, parameters: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """The stage with example values and these parameters, and the plain mean beside it where it is no method."""
    call = (stage.name, {**_examples(stage), **parameters})
    if stage.kind == "method":
        return [call]
    return [_MEAN, call] if stage.kind == "wrapper" else [call, _MEAN]


def statistics_for(stage: Stage, pool: Pico) -> dict[str, Any]:
    """The word `statistics` of a merge by this stage, with made-up numbers; nothing where it reads none."""
    return {"statistics": made_up(stage.statistics, pool)} if stage.statistics else {}


def _examples(stage: Stage) -> dict[str, Any]:
    values = {}
    for name, parameter in stage.parameters.items():
        place = f"{stage.name}.{name}"
        if place in EXAMPLES:
            values[name] = EXAMPLES[place]
        elif parameter.required:
            accepted = [value for value in (*_options(parameter), 0.5, 1, True, "red") if _accepts(parameter, value)]
            assert accepted, f"no example for {place} ({parameter.type_name}); add smelt.testing.EXAMPLES[{place!r}]"
            values[name] = accepted[0]
    return values


def _accepts(parameter: Parameter, value: Any) -> bool:
    try:
        parameter.adapter.validate_python(value)
    except ValidationError:
        return False
    return True


def _options(parameter: Parameter) -> Sequence[Any]:
    return get_args(parameter.annotation) if get_origin(parameter.annotation) is Literal else ()


def count_for(stage: Stage) -> int:
    """As many models as the stage takes, three where it may choose."""
    low, high = stage.models
    return min(max(3, low), high or max(3, low))


def pool_for(stage: Stage) -> Pico:
    """A pico pool of as many models as the stage takes."""
    return pico(count_for(stage))


def filled(stage: Stage, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], Fold | None]:
    """All parameters of a trial, and the fold that the stage needs with them."""
    values = {p.name: p.default for p in stage.parameters.values()} | dict(pipeline_of(stage, parameters))[stage.name]
    columns = {
        name: [value] * count_for(stage)
        if stage.parameters[name].per_model and isinstance(value, int | float)
        else value
        for name, value in values.items()
    }
    return columns, stage.fold_for(columns)


def sums_over_blocks(stage: Stage, parameters: Mapping[str, Any]) -> bool:
    """Whether the stage adds up numbers over a tensor, which rounds differently in other blocks."""
    fold = filled(stage, parameters)[1]
    return fold is not None and not isinstance(fold, Largest)
