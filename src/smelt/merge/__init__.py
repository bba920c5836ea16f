"""Merge methods, one short file each. Importing this room registers them all, and those of installed plug-ins.

A plug-in is any distribution with an entry point in the group `smelt.methods` that names a module of stages.
"""

from __future__ import annotations

import importlib
import pkgutil
from importlib.metadata import entry_points

from smelt.merge.method import (
    Fraction,
    ModelName,
    PerModel,
    Positive,
    Stack,
    Stage,
    merge_basis,
    merge_method,
    merge_step,
    merge_wrapper,
    stages,
)
from smelt.room import callable_room

__all__ = [
    "Fraction",
    "ModelName",
    "PerModel",
    "Positive",
    "Stack",
    "Stage",
    "merge_basis",
    "merge_method",
    "merge_step",
    "merge_wrapper",
    "stages",
]

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
for _plugin in entry_points(group="smelt.methods"):
    _plugin.load()


callable_room(__name__, "smelt.api")
