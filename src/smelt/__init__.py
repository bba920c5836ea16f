"""Smelt: many fine-tuned models in, one good predictor out, with proof."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smelt.api import merge, methods, plan, verify
    from smelt.errors import (
        CorruptFile,
        IncompatibleModels,
        MissingExtra,
        NumericalError,
        OutputError,
        RecipeError,
        SmeltError,
    )
    from smelt.recipe.schema import Recipe

__version__ = "0.1.0"

__all__ = [
    "CorruptFile",
    "IncompatibleModels",
    "MissingExtra",
    "NumericalError",
    "OutputError",
    "Recipe",
    "RecipeError",
    "SmeltError",
    "__version__",
    "merge",
    "methods",
    "plan",
    "verify",
]

_HOME = dict.fromkeys(("merge", "methods", "plan", "verify"), "smelt.api") | {"Recipe": "smelt.recipe.schema"}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `import smelt` itself costs nothing."""
    if name not in __all__:
        raise AttributeError(f"module 'smelt' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_HOME.get(name, "smelt.errors")), name)
    globals()[name] = value
    return value
