"""Schemas of data that others wrote: the base of all of them, and what one found wrong, as short sentences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from smelt.errors import shortened

__all__ = ["Strict", "faults_of", "first_fault", "given_in", "place_of", "reason_of"]

_MOST = 50


class Strict(BaseModel):
    """Plain data in named fields: a field that is not known is refused, and none can be changed."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def faults_of(error: ValidationError, say: Callable[[Mapping[str, Any]], str] | None = None) -> list[str]:
    """Every fault in the words of `say`, by default `models.0.rank: Input should be greater than 0`. Of very many, the
    first: a file can have a hundred thousand, and each takes a search for what was meant.
    """
    found = error.errors(include_url=False)
    more = [f"and {len(found) - _MOST:,} more"] if len(found) > _MOST else []
    return [(say or _said)(fault) for fault in found[:_MOST]] + more


def first_fault(error: ValidationError) -> str:
    """The first of them; enough where a file is not what it should be."""
    return faults_of(error)[0]


def place_of(fault: Mapping[str, Any]) -> str:
    """Where in the data: `models.0.rank`, or `it` for the whole."""
    return shortened(".".join(map(str, fault["loc"]))) or "it"


def reason_of(fault: Mapping[str, Any]) -> str:
    """What is wrong there."""
    return shortened(str(fault["msg"]).removeprefix("Value error, "), 500)


def given_in(fault: Mapping[str, Any]) -> str:
    """What was given there."""
    return shortened(repr(fault["input"]))


def _said(fault: Mapping[str, Any]) -> str:
    return f"{place_of(fault)}: {reason_of(fault)}"
