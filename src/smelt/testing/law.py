"""What a law is, and the register of them all. The laws themselves stand in `laws_of_results` and `laws_of_running`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

__all__ = ["LAWS", "Law", "law"]

Law: TypeAlias = Callable[..., None]

LAWS: dict[str, Law] = {}
"""Every law by the name that a record's `exempt` uses."""


def law(function: Law) -> Law:
    """Register `law_<name>(stage, **parameters)`, which raises AssertionError where the stage breaks it."""
    LAWS[function.__name__.removeprefix("law_")] = function
    return function
