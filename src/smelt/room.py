"""Rooms that are also the call of the same name: `smelt.merge(models)`, `smelt.evaluate(model)` (docs/adr/0001)."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

__all__ = ["callable_room"]


def callable_room(room: str, home: str) -> None:
    """Make the package `room` callable: it hands over to the function that has its name in the module `home`."""
    function = room.rpartition(".")[2]

    class Room(ModuleType):
        """A package that is also its own most important function, whichever of them was loaded first."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(home), function)(*args, **kwargs)

    sys.modules[room].__class__ = Room
