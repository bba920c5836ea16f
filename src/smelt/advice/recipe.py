"""The advice as a recipe, with every word filled in that can be; what is not known is a word in capitals to replace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from smelt.advice.choose import Candidate
from smelt.advice.rules import rules
from smelt.advice.situation import Situation
from smelt.recipe.schema import Recipe

__all__ = ["commands", "recipe_for", "recipe_text", "thinned"]

_POOL = {"base": "dir:BASE", "models": {"first": "dir:FIRST", "second": "dir:SECOND"}}
"""Where no models were named."""


def recipe_for(candidate: Candidate, situation: Situation) -> Recipe:
    """A whole recipe for one method."""
    rule = candidate.rule
    pool = {"base": situation.base, "models": situation.models} if situation.models else _POOL
    if situation.base and not situation.models:
        pool = {**_POOL, "base": situation.base}
    words: dict[str, Any] = {"pool": pool, "merge": rule.merge}
    if "training" in rule.needs:
        tasks = {"tasks": situation.training} if situation.training else {}
        words["data"] = {**tasks, "split": "train", "examples": rules().examples}
    if rule.tune and candidate.settings:
        words["tune"] = thinned(rule.tune, candidate.settings)
    return Recipe.parse(words)


def thinned(tune: Mapping[str, list[float]], settings: int) -> dict[str, list[float]]:
    """The values of a grid of one parameter, at most so many of them, evenly spread with both ends."""
    ((word, values),) = tune.items()
    if settings >= len(values):
        return {word: list(values)}
    step = (len(values) - 1) / (settings - 1)
    return {word: [values[round(number * step)] for number in range(settings)]}


def recipe_text(recipe: Recipe, about: str) -> str:
    """As YAML, with a line above that says what it is."""
    import yaml

    return f"# {about}\n" + yaml.safe_dump(recipe.dump(), sort_keys=False, allow_unicode=True, default_flow_style=None)


def commands(candidate: Candidate, situation: Situation, file: str) -> list[str]:
    """What to type next: the plan, then the choice of a setting where there is one, then the merge."""
    found = [f"smelt plan {file}"]
    if candidate.rule.tune and candidate.settings:
        found += [f"smelt tune {file} --tasks {situation.validation} -o tuned", "smelt merge tuned/best.yaml -o merged"]
    else:
        found.append(f"smelt merge {file} -o merged")
    return found
