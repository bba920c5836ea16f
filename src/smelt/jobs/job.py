"""A job: what to call and with what, in plain data, and the key that follows from both."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from smelt.errors import RecipeError
from smelt.version import __version__

__all__ = ["Job", "plain"]

_CALL = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


@dataclass(frozen=True)
class Job:
    """A pure piece of work: a function by name and plain (JSON) arguments. Equal jobs have equal keys.

    The order of keys in a table means nothing to the key. What the function reads (weights, pictures) is no argument;
    name its hash among the arguments, and other content is another job.
    """

    call: str
    """`package.module:function`; it takes the arguments as keywords and returns plain data."""
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    name: str = field(default="", compare=False)
    """For people; no part of the key."""

    def __post_init__(self) -> None:
        if not _CALL.fullmatch(self.call):
            raise RecipeError(f"a job's call is written package.module:function, got {self.call!r}")
        object.__setattr__(self, "arguments", plain(dict(self.arguments), f"an argument of {self.call}"))

    @cached_property
    def key(self) -> str:
        """SHA-256 over the call, its arguments and Smelt's version."""
        content = json.dumps([__version__, self.call, self.arguments], sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(content.encode()).hexdigest()

    @property
    def label(self) -> str:
        """How messages call it."""
        return self.name or f"{self.call.rpartition(':')[2]} {self.key[:8]}"


def plain(value: Any, what: str, where: str = "") -> Any:
    """A copy of plain data, tuples as lists; anything that JSON cannot carry is refused with its place."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int | float) and type(value) in (int, float):
        if not math.isfinite(value):
            raise RecipeError(
                f"{what}{_at(where)} is {value}, which JSON cannot carry; give a finite number or nothing"
            )
        return value
    if isinstance(value, list | tuple):
        return [plain(one, what, f"{where}[{number}]") for number, one in enumerate(value)]
    if isinstance(value, Mapping):
        strange = next((key for key in value if not isinstance(key, str)), None)
        if strange is not None:
            raise RecipeError(f"{what}{_at(where)} has the key {strange!r}; keys of plain data are text")
        return {key: plain(one, what, f"{where}.{key}".lstrip(".")) for key, one in value.items()}
    kind = type(value).__name__
    raise RecipeError(f"{what}{_at(where)} is a {kind}; jobs carry plain data (numbers, text, lists, tables)")


def _at(where: str) -> str:
    return f", {where}," if where else ""
