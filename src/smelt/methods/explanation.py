"""A stage's docstring in its parts: what it is, when to use it, what its parameters do, and an example.

The parts are separated by empty lines:

    TIES: trim small changes, ...                         what it is; indented lines are the equation
    Use it for ... Avoid it for ...                       when, and when not
    Its parameters:                                       one entry each; the values that make sense follow `Try`
        density: the share that is kept. Try `0.1` to `0.5`.
    Example:                                              words of a recipe
        merge: {ties: {density: 0.2}}

`smelt methods NAME` and the pages of the methods show them. A plug-in's docstring may lack any of them.
"""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from inspect import cleandoc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from smelt.methods.method import Stage

__all__ = ["Explanation", "ParameterText", "declared_costs", "example_recipe", "explain"]

_POOL = "zoo:clip-tiny"
_NAMES = ("digits", "flags", "letters")
_PIECES = {
    "element": "Tensors stream through in blocks: memory does not grow with the models.",
    "row": "Tensors stream through in whole rows: memory does not grow with the models.",
    "tensor": "One whole tensor of all models is in memory at a time.",
    "matrix": "One whole matrix of all models is in memory at a time, in float64.",
}


@dataclass(frozen=True)
class ParameterText:
    """What is said about one parameter."""

    text: str
    """What it does, and which values make sense."""

    @property
    def values(self) -> tuple[str, ...]:
        """All values that are mentioned."""
        return _values(self.text)

    @property
    def sensible(self) -> tuple[str, ...]:
        """The values after `Try`, of a parameter that is no choice."""
        return _values(self.text.partition("Try ")[2])


@dataclass(frozen=True)
class Explanation:
    """What a docstring says."""

    text: str
    """What it is, with equation, source and differences."""
    use: str
    avoid: str
    parameters: dict[str, ParameterText]
    example: str
    """Words of a recipe, in YAML; without `pool` where the models do not matter."""


def explain(stage: Stage) -> Explanation:
    """The parts of a stage's docstring; those that it lacks are empty."""
    rest, use, avoid, example = [], "", "", ""
    parameters: dict[str, ParameterText] = {}
    for part in re.split(r"\n\s*\n", stage.doc):
        head, _, body = part.partition("\n")
        if head == "Its parameters:":
            parameters = _entries(textwrap.dedent(body))
        elif head == "Example:":
            example = textwrap.dedent(body).strip()
        elif head.startswith("Use it "):
            use, _, avoid = re.sub(r"\s+", " ", part).partition(" Avoid it ")
            avoid = avoid and f"Avoid it {avoid}"
        else:
            rest.append(part)
    return Explanation("\n\n".join(rest), use, avoid, parameters, example)


def example_recipe(stage: Stage) -> str:
    """A whole recipe that uses the stage, on models of the zoo; nothing where the docstring has no example."""
    words = explain(stage).example
    if not words or words.startswith("pool:"):
        return words
    names = _NAMES[: stage.models[1]]
    models = "".join(f"    {name}: {_POOL}-{name}\n" for name in names)
    apart = stage.space == "weight" and "data:" not in words  # then it is the mean of models without any base
    base = "" if apart else f"  base: {_POOL}\n"
    return f"pool:\n{base}  models:\n{models}{words}"


def declared_costs(stage: Stage) -> list[str]:
    """What follows from a stage's record: how often the weights are read, and how much of a tensor is held at once."""
    count = stage.models[1] or 2
    values = {one.name: 1.0 if one.required else one.default for one in stage.parameters.values()}
    columns = {name: [v] * count if stage.parameters[name].per_model else v for name, v in values.items()}
    fold = stage.fold_for(columns)
    passes = 1 + (fold.passes if fold is not None else 0)
    read = "The weights are read once." if passes == 1 else f"The weights are read up to {passes} times."
    if callable(stage.unit):
        return [read, "How much of a tensor is in memory at once depends on `over`: a block, whole rows, or all of it."]
    return [read, _PIECES[stage.unit]]


def _values(text: str) -> tuple[str, ...]:
    """What stands in backticks, but for words of a recipe such as `merge: sum`."""
    return tuple(value for value in re.findall(r"`([^`]+)`", text) if ":" not in value)


def _entries(text: str) -> dict[str, ParameterText]:
    """`name: text`, which goes on in indented lines."""
    found = re.findall(r"^(\w+): (.*(?:\n +.*)*)", text, flags=re.MULTILINE)
    return {name: ParameterText(re.sub(r"\s+", " ", cleandoc(said))) for name, said in found}
