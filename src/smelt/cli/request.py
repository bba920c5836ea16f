"""The words that `merge` and `plan` share: a recipe file, or models and a method by flags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from smelt.errors import RecipeError
from smelt.files.remote_code import FLAG
from smelt.files.yaml_reader import parse_yaml

__all__ = [
    "AllowPickleOption",
    "BaseOption",
    "DeviceOption",
    "JsonOption",
    "MemoryOption",
    "MethodOption",
    "ModelOption",
    "PoolOption",
    "RecipeArgument",
    "SetOption",
    "ThreadsOption",
    "TrustOption",
    "named_models",
    "request",
]

_FLAGS = frozenset(
    "out method base model models threads memory device resume force quiet json trust_remote_code".split()
)

RecipeArgument = Annotated[
    Path | None,
    typer.Argument(metavar="RECIPE.yaml", help="A recipe: Smelt's own or mergekit's YAML.", show_default=False),
]
MethodOption = Annotated[str | None, typer.Option("-m", "--method", help="A merge method (see `smelt methods`).")]
BaseOption = Annotated[str | None, typer.Option("--base", help="The model the others were fine-tuned from.")]
ModelOption = Annotated[
    list[str] | None, typer.Option("--model", help="A model to merge, as REF or NAME=REF. Give it once per model.")
]
PoolOption = Annotated[
    str | None,
    typer.Option("--pool", help="Base and models by the name of a shipped pool or a YAML file: MergeBench/gemma-2-2b."),
]
MemoryOption = Annotated[str | None, typer.Option("--memory", help="Limit for work memory, e.g. 500MB.")]
DeviceOption = Annotated[str, typer.Option("--device", help="cpu or cuda.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="A parameter of the method or a word of the recipe: density=0.2, dtype=bfloat16."),
]
ThreadsOption = Annotated[int | None, typer.Option("--threads", min=1, help="Worker threads; all cores by default.")]
AllowPickleOption = Annotated[
    bool, typer.Option("--allow-pickle", help="Read .bin and .pt files too, with torch's weights_only.")
]
TrustOption = Annotated[bool, typer.Option(FLAG, help="Run Python code that comes with a model or a task folder.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


def request(
    recipe: Path | None,
    method: str | None,
    base: str | None,
    models: Sequence[str] | None,
    sets: Sequence[str] | None,
    pool: str | None = None,
) -> tuple[Any, dict[str, Any]]:
    """The positional argument and the keywords for `smelt.merge` and `smelt.plan`."""
    words = dict(_assignment(text) for text in sets or ())
    reserved = sorted(words.keys() & _FLAGS)
    if reserved:
        raise RecipeError(f"--set {reserved[0]}: that is a flag of its own, --{reserved[0].replace('_', '-')}")
    if recipe is not None:
        if method or base or models or pool:
            raise RecipeError("give either a recipe or --method, --base and --model, not both (--set changes a recipe)")
        return recipe, words
    if method is not None:
        words["method"] = method
    if pool is not None:
        if base or models:
            raise RecipeError("a pool says what the base and the models are; give either --pool or --base and --model")
        from smelt.compat.fusionbench.pools import shipped_pool

        found = shipped_pool(pool)
        return dict(found.models), {**found.words, **words, **({"base": found.base} if found.base else {})}
    if not models:
        raise RecipeError("nothing to merge: give a recipe, or --model once per model (see `smelt merge --help`)")
    if base is not None:
        words["base"] = base
    return named_models(models), words


def named_models(models: Sequence[str]) -> Any:
    """`--model` flags as a table by name, or as a list where no names are given."""
    pairs = [_name_and_ref(text) for text in models]
    if not any(name for name, _ in pairs):
        return [ref for _, ref in pairs]
    if not all(name for name, _ in pairs):
        raise RecipeError("name all models (--model NAME=REF) or none")
    names = [name for name, _ in pairs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise RecipeError(f"two models are named {twice!r}")
    return dict(pairs)


def _name_and_ref(text: str) -> tuple[str, str]:
    """NAME=REF, unless the whole text is a path that exists."""
    name, equals, ref = text.partition("=")
    if not equals or Path(text.removeprefix("dir:")).exists() or "/" in name or ":" in name:
        return "", text
    return name, ref


def _assignment(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not equals or not key.isidentifier():
        raise RecipeError(f"--set takes NAME=VALUE, got {text!r}")
    return key, parse_yaml(value, f"--set {key}", kind=RecipeError)
