"""What `merge`, `plan` and their kin are asked for: a recipe file, or models and a method by flags."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from smelt.cli.from_function import Given
from smelt.errors import RecipeError
from smelt.files.yaml_reader import parse_yaml

__all__ = ["assignment", "named_models", "request"]

_FLAGS = frozenset(
    "out method base model models threads memory device resume force quiet json trust_remote_code".split()
)


def request(given: Given) -> tuple[Any, dict[str, Any]]:
    """The positional argument and the keywords for `smelt.merge` and its kin; flags go before --set."""
    recipe, method, base, models, sets, pool = map(
        given.flags.get, ("recipe", "method", "base", "model", "set", "pool")
    )
    words = dict(assignment(text) for text in sets or ())
    reserved = sorted(words.keys() & _FLAGS)
    if reserved:
        raise RecipeError(f"--set {reserved[0]}: that is a flag of its own, --{reserved[0].replace('_', '-')}")
    words |= given.words()
    if recipe is not None:
        if method or base or models or pool:
            raise RecipeError("give either a recipe or --method, --base and --model, not both (--set changes a recipe)")
        if recipe.is_dir():
            raise RecipeError(
                f"{recipe} is a folder, and a recipe is a YAML file; models are given with --model, once per model, "
                "and a base with --base"
            )
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


def assignment(text: str) -> tuple[str, Any]:
    """NAME=VALUE of a `--set`, the value read as YAML."""
    key, equals, value = text.partition("=")
    if not equals or not all(part.isidentifier() for part in key.replace("-", "_").split(".")):
        raise RecipeError(f"--set takes NAME=VALUE or STAGE.NAME=VALUE, got {text!r}")
    return key, parse_yaml(value, f"--set {key}", kind=RecipeError)
