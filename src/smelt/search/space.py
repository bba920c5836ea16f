"""The space of a study: what the words of `tune` mean in a recipe, and the recipe at any point of it.

In: a recipe and phases of spreads by `stage.parameter`. Out: the same phases with every word and value checked against
the stages' own parameters, all faults at once; a point {word: value} becomes a recipe.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args, get_origin

from smelt.errors import Faults, RecipeError, SmeltError, did_you_mean, listed, unknown
from smelt.methods import Stage, stages
from smelt.methods.aliases import ALIASES
from smelt.methods.method import Parameter
from smelt.prepare.prepare import check_recipe, stages_with_data
from smelt.recipe.method_names import unknown_method
from smelt.recipe.schema import Recipe, StageCall
from smelt.recipe.tune import Choices, Range, Spread

__all__ = ["Point", "Space", "read_space", "recipe_at"]

Point = Mapping[str, Any]
"""Values by their words."""


@dataclass(frozen=True)
class Space:
    """What varies together: words and their spreads, in the recipe's order."""

    spreads: Mapping[str, Spread]
    whole: frozenset[str]
    """The words whose values are whole numbers."""

    @property
    def is_grid(self) -> bool:
        """Whether its points can be counted."""
        return all(isinstance(one, Choices) or one.step is not None for one in self.spreads.values())

    def points(self) -> list[dict[str, Any]]:
        """Every point of a grid; the last word varies first."""
        columns = [
            spread.values if isinstance(spread, Choices) else self._steps(word, spread)
            for word, spread in self.spreads.items()
        ]
        return [dict(zip(self.spreads, values, strict=True)) for values in itertools.product(*columns)]

    def rank(self, point: Point) -> tuple[float, ...]:
        """What decides between equally good points: the first of a list, the smallest of a range."""
        return tuple(
            spread.values.index(point[word]) if isinstance(spread, Choices) else float(point[word])
            for word, spread in self.spreads.items()
        )

    def _steps(self, word: str, spread: Range) -> tuple[float, ...]:
        return tuple(int(one) for one in spread.ladder) if word in self.whole else spread.ladder


def read_space(recipe: Recipe, phases: Sequence[Mapping[str, Spread]]) -> list[Space]:
    """The phases, checked: every word names a parameter, every value makes a recipe."""
    gathered = Faults()
    staged = [_with_stages(recipe, phase, gathered) for phase in phases]
    faults, spaces = gathered.found, []
    for phase in _expanded(recipe, staged):
        whole = set()
        for word, spread in phase.items():
            try:
                parameter = _parameter(recipe, word)
                if _is_whole(parameter.annotation):
                    whole.add(word)
            except RecipeError as error:
                faults.append(f"tune.{word}: {error}")
                continue
            faults += [f"tune.{word}: {fault}" for fault in _value_faults(recipe, word, spread, word in whole)]
        spaces.append(Space(phase, frozenset(whole)))
    words = [word for space in spaces for word in space.spreads]
    faults += [
        f"tune.{word}: stands in two tables; give it one" for word in dict.fromkeys(words) if words.count(word) > 1
    ]
    if len(spaces) > 1 and not all(space.is_grid for space in spaces):
        faults.append("tune: tables that are tuned one after the other hold lists, or ranges with a step")
    if faults:
        raise RecipeError(listed(faults, "the recipe has faults:"))
    return spaces


def recipe_at(recipe: Recipe, point: Point) -> Recipe:
    """The recipe at a point; it declares nothing to tune any more."""
    calls = list(recipe.merge)
    for word, value in point.items():
        number, name, model = _place(recipe, word)
        given = dict(calls[number].parameters)
        given[name] = value if model is None else {**_by_model(recipe, calls[number], name), model: value}
        calls[number] = calls[number].model_copy(update={"parameters": given})
    return recipe.model_copy(update={"merge": calls, "tune": None})


def _expanded(recipe: Recipe, phases: Sequence[Mapping[str, Spread]]) -> Iterator[dict[str, Spread]]:
    """`stage.parameter.*` as one phase per model."""
    for phase in phases:
        starred = [word for word in phase if word.endswith(".*")]
        if not starred:
            yield dict(phase)
        elif len(phase) > 1:
            raise RecipeError(f"tune.{starred[0]}: is tuned model after model; give it a table of its own in a list")
        else:
            (word,) = starred
            yield from ({f"{word[:-1]}{model}": phase[word]} for model in recipe.pool.models)


def _with_stages(recipe: Recipe, phase: Mapping[str, Spread], faults: Faults) -> dict[str, Spread]:
    """The words of a phase, each with its stage: `scale` is that of the one stage that has a scale."""
    found: dict[str, Spread] = {}
    for word, spread in phase.items():
        with faults.gathering():
            whole = word if "." in word else _with_stage(recipe, word)
            if whole in found:
                raise RecipeError(f"tune.{word}: is the same as {whole}, which stands beside it; give it once")
            found[whole] = spread
    return found


def _with_stage(recipe: Recipe, name: str) -> str:
    takers = [call.name for call in recipe.merge if any(name in stage.parameters for stage in _parts(call))]
    if len(takers) > 1:
        ways = " or ".join(f"{stage}.{name}" for stage in takers)
        raise RecipeError(f"tune.{name}: {' and '.join(takers)} both have it; write {ways}")
    if not takers:
        known = sorted({one for call in recipe.merge for stage in _parts(call) for one in stage.parameters})
        raise RecipeError(f"tune.{name}: {unknown('parameter of the recipe', name, known)}")
    return f"{takers[0]}.{name}"


def _place(recipe: Recipe, word: str) -> tuple[int, str, str | None]:
    """Which call of the pipeline a word means, the parameter, and the model if it names one."""
    stage, name, *model = word.split(".", 2)
    numbers = [number for number, call in enumerate(recipe.merge) if call.name == stage]
    if not numbers:
        raise RecipeError(unknown("stage of the recipe", stage, [call.name for call in recipe.merge]))
    if len(numbers) > 1:
        raise RecipeError(f"the recipe has {stage} {len(numbers)} times; only a stage that is there once can be tuned")
    return numbers[0], name, model[0] if model else None


def _parameter(recipe: Recipe, word: str) -> Parameter:
    number, name, model = _place(recipe, word)
    call = recipe.merge[number]
    parts = _parts(call)
    known = {parameter.name: parameter for stage in reversed(parts) for parameter in stage.parameters.values()}
    if name not in known:
        hint = did_you_mean(name, known)
        raise RecipeError(f"{call.name} has no parameter {name!r}{hint}; it has: {', '.join(known) or 'none'}")
    if model is not None:
        if not known[name].per_model:
            raise RecipeError(f"{call.name}.{name} is one value for all models, so {model!r} has none of its own")
        if model not in recipe.pool.models:
            raise RecipeError(unknown("model", model, recipe.pool.models))
        _by_model(recipe, call, name)
    return known[name]


def _parts(call: StageCall) -> list[Stage]:
    """The stages behind a name, those that look at data among them."""
    found = [stages[stage] for stage, _ in ALIASES.get(call.name, [(call.name, {})]) if stage in stages]
    found = found or [known for name, known in stages_with_data().items() if name == call.name]
    if not found:
        raise RecipeError(unknown_method(call.name, [*stages, *ALIASES, *stages_with_data()]))
    return found


def _by_model(recipe: Recipe, call: StageCall, name: str) -> dict[str, Any]:
    """The values of a per-model parameter before tuning, by model."""
    value = call.parameters.get(name)
    if value is None:
        value = next(stage.parameters[name].default for stage in _parts(call) if name in stage.parameters)
    models = list(recipe.pool.models)
    if isinstance(value, Mapping) and value.keys() == set(models):
        return dict(value)
    if isinstance(value, list | tuple) and len(value) == len(models):
        return dict(zip(models, value, strict=True))
    if isinstance(value, int | float):
        return dict.fromkeys(models, value)
    raise RecipeError(
        f"{call.name}.{name} is {value!r}, which says nothing of single models; give one number per model"
    )


def _value_faults(recipe: Recipe, word: str, spread: Spread, whole: bool) -> list[str]:
    """What the stage refuses among the values; of a range, its ends."""
    faults = []
    if isinstance(spread, Range):
        numbers = [spread.low, spread.high, *([] if spread.step is None else [spread.step])]
        if whole and not all(float(number).is_integer() for number in numbers):
            faults.append(f"takes whole numbers; got {spread.dump()}")
        values: Sequence[Any] = (int(spread.low), int(spread.high)) if whole else (spread.low, spread.high)
    else:
        values = spread.values
    for value in values if not faults else ():
        try:
            check_recipe(recipe_at(recipe, {word: value}))
        except SmeltError as error:
            faults.append(str(error))
    return list(dict.fromkeys(faults))


def _is_whole(annotation: Any) -> bool:
    """Whether a type is int, however it is annotated; `int | None` too."""
    if annotation is int:
        return True
    if get_origin(annotation) is not None or get_args(annotation):
        inner = [one for one in get_args(annotation) if isinstance(one, type) or get_args(one)]
        kinds = [one for one in inner if one is not type(None)]
        return bool(kinds) and _is_whole(kinds[0]) and len(kinds) == 1
    return False
