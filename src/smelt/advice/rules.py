"""The guideline as data, read once: `rules.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["Rule", "Rules", "rules"]

_FILE = Path(__file__).parent / "rules.yaml"


@dataclass(frozen=True)
class Rule:
    """One method that the guideline names. `merge` and `tune` are words of a recipe."""

    name: str
    needs: tuple[str, ...]
    why: str
    merge: Any
    chosen_by: str | None = None
    """The data that its setting is chosen on."""
    tune: Mapping[str, list[float]] | None = None

    @property
    def settings(self) -> int:
        """How many settings its grid has; 0 where there is nothing to choose."""
        found = 1 if self.tune else 0
        for values in (self.tune or {}).values():
            found *= len(values)
        return found


@dataclass(frozen=True)
class Rules:
    """Everything that is decided by data and not by code."""

    small_below: float
    tiny_below: float
    examples: int
    instruct: tuple[str, ...]
    methods: dict[str, Rule]
    avoided: dict[str, str]


@cache
def rules() -> Rules:
    """Read once."""
    from smelt.recipe.read import load_yaml

    content: dict[str, Any] = dict(load_yaml(_FILE, "guideline"))
    methods = {entry: Rule(**{**words, "needs": tuple(words["needs"])}) for entry, words in content["methods"].items()}
    return Rules(**{**content, "methods": methods, "instruct": tuple(content["instruct"])})
