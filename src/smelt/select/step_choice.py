"""Choosing: values of models in, an order out; values of steps in, the chosen step out.

UQ-Merge's Algorithm 1 sorts by descending uncertainty and takes the lowest of all steps (`global_min`, strictly lower
ones only, so the smaller of two equal groups). What the paper reports is its first local minimum (`first_local_min`:
the last step before the first rise).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

from smelt.errors import RecipeError, unknown

__all__ = ["Choice", "Guide", "Order", "chosen_step", "ordered"]

Guide = Literal["uncertainty", "accuracy"]
Order = Literal["descending", "ascending"]
Choice = Literal["global_min", "first_local_min"]


def ordered(values: Mapping[str, float], order: Order = "descending") -> list[str]:
    """Names by their values; of equals the earlier one comes first."""
    if order not in get_args(Order):
        raise RecipeError(unknown("order", order, get_args(Order)))
    sign = -1 if order == "descending" else 1
    return sorted(values, key=lambda name: sign * values[name])


def chosen_step(values: Sequence[float], choose: Choice = "global_min") -> int:
    """The number of the chosen step, from 1."""
    if choose not in get_args(Choice):
        raise RecipeError(unknown("way to choose", choose, get_args(Choice)))
    if choose == "first_local_min":
        return next((step for step in range(1, len(values)) if values[step] > values[step - 1]), len(values))
    return min(range(len(values)), key=lambda step: values[step]) + 1
