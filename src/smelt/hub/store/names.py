"""Names of models: safe as a folder's and in an address, and each only once."""

from __future__ import annotations

import re

from smelt.errors import RecipeError

__all__ = ["check_name", "is_name", "name_taken"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def is_name(name: str) -> bool:
    """Whether a model may be called so."""
    return _NAME.fullmatch(name) is not None


def check_name(name: str) -> str:
    """The name, if it can be one."""
    if not is_name(name):
        raise RecipeError(
            f"{name!r} cannot be a model's name: letters, digits, `.`, `_` and `-`, a letter or digit first, up to 100"
        )
    return name


def name_taken(name: str) -> RecipeError:
    """There is a model of this name."""
    return RecipeError(f"the hub has a model named {name!r} already; choose another name, or remove that one first")
