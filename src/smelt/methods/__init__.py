"""Merge methods, one short file each. `stages` has them all, and those of installed plug-ins (registry.py)."""

from __future__ import annotations

from smelt.methods.method import (
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
from smelt.public_names import dir_of

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

__dir__ = dir_of(__name__)
