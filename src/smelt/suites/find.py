"""Suites by name, over the files of all kinds, and by path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from smelt.errors import RecipeError, unknown
from smelt.files.schema import faults_of
from smelt.recipe.read import load_yaml
from smelt.suites.families import of_family
from smelt.suites.kind import DEFAULT, SuiteKind, suite_kinds

__all__ = ["find_suite", "kind_of", "suites"]


def suites() -> dict[str, Path]:
    """The shipped suites of all kinds by name."""
    return dict(sorted((name, file) for kind in suite_kinds.values() for name, file in kind.suites().items()))


def find_suite(name: str | Path, family: str | None = None) -> Any:
    """A shipped suite by its name, or one's own by its path. Its `kind` (`hub`, `language`, …) is in it.

    `family` is one of the suite's families of models; its first one if nothing is given.
    """
    shipped = suites()
    path = shipped.get(str(name)) or Path(name)
    if not path.exists() and path.suffix not in (".yaml", ".yml"):
        raise RecipeError(unknown("suite", str(name), shipped))
    content = load_yaml(path, "suite")
    if not isinstance(content, dict):
        raise RecipeError(f"{path}: a suite is a table with a name, tasks and entries, got {type(content).__name__}")
    named = str(content.get("kind", DEFAULT))
    if named not in suite_kinds:
        raise RecipeError(f"{path}: {unknown('kind of suite', named, suite_kinds)}")
    content = of_family(content, family, str(path))
    try:
        return suite_kinds[named].schema.model_validate(content)
    except ValidationError as error:
        faults = "".join(f"\n  - {fault}" for fault in faults_of(error))
        raise RecipeError(f"{path}: not a suite:{faults}") from None


def kind_of(suite: Any) -> SuiteKind:
    """The kind that a suite is of."""
    return suite_kinds[getattr(suite, "kind", DEFAULT)]
