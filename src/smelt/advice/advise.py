"""The public call: `smelt.advise(...)` -> an Advice. The command `smelt advise` is this function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from smelt.advice.choose import Candidate, Choice, choose, names_of
from smelt.advice.evidence import Citation, mean, ours
from smelt.advice.reasons import expectation, reasons
from smelt.advice.recipe import commands, recipe_for, recipe_text
from smelt.advice.situation import read_situation
from smelt.errors import OutputError
from smelt.recipe.schema import Recipe

__all__ = ["Advice", "advise"]


@dataclass(frozen=True)
class Advice:
    """What to do, why, and what it rests on."""

    method: str
    name: str
    second: str | None
    second_name: str | None
    why: tuple[str, ...]
    expect: str
    taken: tuple[str, ...]
    """What was found out about the base rather than said."""
    avoided: dict[str, str]
    """Methods that were passed over, each with its reason."""
    citations: tuple[Citation, ...]
    recipe: Recipe
    text: str
    """The recipe as YAML."""
    commands: tuple[str, ...]
    """What to type next."""

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        cited = [{"source": c.source, "base": c.base, "method": c.method, "value": c.value} for c in self.citations]
        return {
            "method": self.method,
            "name": self.name,
            "second": self.second,
            "why": list(self.why),
            "expect": self.expect,
            "taken": list(self.taken),
            "avoided": self.avoided,
            "rests_on": cited,
            "recipe": self.recipe.dump(),
            "commands": list(self.commands),
        }


def advise(
    models: Any = None,
    *,
    base: str | None = None,
    validation: str | Sequence[str] | None = None,
    training: str | Sequence[str] | Mapping[str, str] | None = None,
    minutes: float | None = None,
    validation_minutes: float | None = None,
    memory: str | int | None = None,
    base_kind: str | None = None,
    size: str | float | None = None,
    out: str | Path | None = None,
    force: bool = False,
) -> Advice:
    """Recommend a method to merge language models, with a recipe and the rows that the advice rests on.

    `models` and `base` are references, as `merge` takes them, and may be left out. `validation` are tasks that a
    setting may be chosen on; `training` are tasks with training data, `MODEL=TASK` or named as the models are.
    `minutes` are for choosing a setting, of which one evaluation takes `validation_minutes`; `memory` is a size
    (`16GB`). `base_kind` is pretrained or instruct and `size` is `8B`: found out where the base is at hand. `out` is a
    file for the recipe. A base that is known to be no language model (a CLIP, an encoder) is refused: there are no rows
    for it. What was assumed is in `taken`.
    """
    situation = read_situation(
        models,
        base=base,
        validation=validation,
        training=training,
        minutes=minutes,
        validation_minutes=validation_minutes,
        memory=memory,
        base_kind=base_kind,
        size=size,
    )
    choice = choose(situation)
    first, *others = choice.candidates
    second = others[0] if others else None
    recipe = recipe_for(first, situation)
    if situation.models:
        _check(recipe)
    text = recipe_text(recipe, f"Advised by `smelt advise`: {first.rule.name}.")
    if out is not None:
        _write(Path(out), text, force)
    return Advice(
        first.entry,
        first.rule.name,
        second.entry if second else None,
        second.rule.name if second else None,
        tuple(reasons(first, second, choice, situation)),
        expectation(first, choice, situation),
        situation.notes,
        {name: why for entry, why in choice.avoided.items() for name in names_of([entry])},
        tuple(_cited([one for one in (first, second) if one], choice, situation.kind)),
        recipe,
        text,
        tuple(commands(first, situation, str(out or "recipe.yaml"))),
    )


def _cited(shown: Sequence[Candidate], choice: Choice, kind: str | None) -> list[Citation]:
    """The rows of similar base models for the methods that are named; ours too, where it is of the same kind."""
    own, rows = ours(), list(choice.witnesses)
    if own and own.witness not in rows and kind in (None, own.witness.kind):
        rows.append(own.witness)
    return [
        Citation(row.source, row.base, name, row.scores[one.entry])
        for row in rows
        for one, name in zip(shown, names_of([one.entry for one in shown]), strict=True)
        if mean(one.entry, [row]) is not None
    ]


def _check(recipe: Recipe) -> None:
    """That the recipe's stages exist and take their parameters, and that models have their data."""
    from smelt.prepare.prepare import check_recipe

    check_recipe(recipe)


def _write(path: Path, text: str, force: bool) -> None:
    if path.exists() and not force:
        raise OutputError(f"{path} exists; give another name, or --force to replace it")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise OutputError(f"{path}: cannot be written ({error.strerror})") from None
