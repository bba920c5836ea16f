"""Search: a recipe that says what may vary in, the best of its settings out, chosen on validation data.

The parent asks Optuna for a setting, a job (`trial`) merges and evaluates it, the parent tells Optuna. A study lies in
a folder and goes on where it was. Nothing here ever looks at a `test` split. Names load when first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from smelt.search.call import Tuned, tune
    from smelt.search.grids import grids
    from smelt.search.study import Trial

__all__ = ["Trial", "Tuned", "grids", "tune"]

_HOME = {"Trial": "study", "Tuned": "call", "grids": "grids", "tune": "call"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
