"""What `dir` shows of a public module: the names that it offers, not those that it imports for itself."""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["dir_of"]


def dir_of(module: str) -> Callable[[], list[str]]:
    """A module's `__dir__`: its `__all__`, and the names with two underscores that every module has."""

    def names() -> list[str]:
        there = vars(sys.modules[module])
        own = (name for name in there if name.startswith("__") and name.endswith("__"))
        return sorted({*there["__all__"], *own})

    return names
