"""Parameters that are given beside the method, put with the stage of the pipeline that they belong to.

dare,ties  dare.density=0.5           goes to dare
dare,ties  weights=[1, 2]             goes to ties, which alone has it
dare,ties  density=0.5                is refused with both spellings: dare and ties have it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from smelt.caller import in_shell, set_flag
from smelt.errors import RecipeError, did_you_mean, unknown
from smelt.methods import Stage, stages
from smelt.methods.aliases import ALIASES
from smelt.recipe.method_names import method_name
from smelt.recipe.pipeline import route
from smelt.recipe.schema import StageCall

__all__ = ["parameters_of", "with_parameters"]


def with_parameters(calls: Sequence[StageCall], given: Mapping[str, Any]) -> list[StageCall]:
    """The stages with these parameters, each written `density` or `dare.density`. What was there before is replaced."""
    made = list(calls)
    for word, value in given.items():
        made = _with_parameter(made, word, value)
    return made


def _with_parameter(calls: list[StageCall], word: str, value: Any) -> list[StageCall]:
    stage, dot, name = word.partition(".")
    if dot:
        calls = _with_stage(calls, method_name(stage))
        return [_changed(call, name, value) if call.name == method_name(stage) else call for call in calls]
    if len(calls) == 1:
        return [_changed(calls[0], word, value)]
    takers = [call for call in calls if word in parameters_of(call)]
    if not takers:
        known = list(dict.fromkeys(parameter for call in calls for parameter in parameters_of(call)))
        hint = did_you_mean(word, known)
        raise RecipeError(f"no stage of {_listed(calls)} has a parameter {word!r}{hint}; they have: {', '.join(known)}")
    if len(takers) > 1:
        ways = " or ".join(_spelling(calls, call, word, value) for call in takers)
        raise RecipeError(f"{' and '.join(call.name for call in takers)} both have a parameter {word!r}; write {ways}")
    return [_changed(call, word, value) if call is takers[0] else call for call in calls]


def _with_stage(calls: list[StageCall], stage: str) -> list[StageCall]:
    """The calls with one of this name; a name from another tool gives way to the stages that it stands for."""
    if any(call.name == stage for call in calls):
        return calls
    for number, call in enumerate(calls):
        if any(name == stage for name, _ in ALIASES.get(call.name, ())):
            composition = [StageCall(name=name, parameters=values) for name, values in route(call)]
            return [*calls[:number], *composition, *calls[number + 1 :]]
    raise RecipeError(unknown(f"stage of {_listed(calls)}", stage, [call.name for call in calls]))


def _changed(call: StageCall, name: str, value: Any) -> StageCall:
    return call.model_copy(update={"parameters": {**call.parameters, name: value}})


def parameters_of(call: StageCall) -> dict[str, Any]:
    behind: list[Stage] = [stages[name] for name, _ in ALIASES.get(call.name, [(call.name, {})]) if name in stages]
    return {name: parameter for stage in behind for name, parameter in stage.parameters.items()}


def _listed(calls: Sequence[StageCall]) -> str:
    return ",".join(call.name for call in calls)


def _spelling(calls: Sequence[StageCall], chosen: StageCall, name: str, value: Any) -> str:
    """How a parameter of one stage is given: pasted as it is."""
    if in_shell():
        return set_flag(f"{chosen.name}.{name}", value)
    stages_: list[Any] = [
        (call.name, {**call.parameters, **({name: value} if call is chosen else {})})
        if call is chosen or call.parameters
        else call.name
        for call in calls
    ]
    return f"`method={stages_!r}`"
