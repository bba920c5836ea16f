"""One suite for several families of models: `families` in its YAML, `--family` (or `--base`) on the command line.

    families:
      ViT-B-32: {words: {arch: clip-vit-base-patch32}}
      ViT-L-14: {words: {arch: clip-vit-large-patch14}, fields: {curve_limit: 100}}
      ours: {plain: true, words: {arch: clip-tiny}}
    pool: {base: "hf:openai/{arch}", models: {cars: "hf:tanganke/{arch}_stanford-cars"}}

A family's `words` stand for `{word}` in every text of the suite, and `{family}` for its own name; its `fields` take the
place of the suite's. The first family is the default. Runs are called by suite and family, those of a `plain` one by
the suite alone: it was there before the others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from smelt.errors import RecipeError, unknown
from smelt.files.schema import Strict, faults_of

__all__ = ["Family", "of_family"]


class Family(Strict):
    """What is special about one family of models."""

    words: dict[str, str] = {}
    fields: dict[str, Any] = {}
    plain: bool = False


def of_family(content: Mapping[str, Any], family: str | None, where: str) -> dict[str, Any]:
    """The suite's YAML for one family. It keeps the family's name as `family`."""
    content = dict(content)
    families = content.pop("families", None)
    if families is None:
        if family is not None:
            raise RecipeError(f"family: {content.get('name', where)} has one family of models alone; leave it out")
        return content
    if not isinstance(families, dict) or not families:
        raise RecipeError(f"{where}: families: a table of families by name")
    name = next(iter(families)) if family is None else family
    if name not in families:
        raise RecipeError(f"{content.get('name', where)}: {unknown('family', name, families)}")
    try:
        known = Family.model_validate(families[name] or {})
    except ValidationError as error:
        raise RecipeError(f"{where}: families.{name}: " + "; ".join(faults_of(error))) from None
    own = {} if known.plain else {"family": name}
    told: dict[str, Any] = _told({**content, **known.fields, **own}, {**known.words, "family": name})
    return told


def _told(content: Any, words: Mapping[str, str]) -> Any:
    """The same with every `{word}` that is known said; other braces stay."""
    match content:
        case str():
            return re.sub(r"\{(\w+)\}", lambda found: words.get(found[1], found[0]), content)
        case dict():
            return {_told(key, words): _told(value, words) for key, value in content.items()}
        case list():
            return [_told(value, words) for value in content]
        case _:
            return content
