"""Every format that Smelt reads, by name."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from fuzz.format import Format

__all__ = ["FORMATS", "spread"]

_MODULES = sorted(path.stem for path in Path(__file__).parent.glob("formats_of_*.py"))
FORMATS: dict[str, Format] = {one.name: one for name in _MODULES for one in import_module(f"fuzz.{name}").FORMATS}
"""Those of every `formats_of_*.py` beside this file."""


def spread(inputs: int, names: list[str] | None = None) -> dict[str, int]:
    """How many inputs each format gets, by their shares, so that it is at least `inputs` in all."""
    chosen = [FORMATS[name] for name in names or FORMATS]
    whole = sum(one.share for one in chosen)
    return {one.name: max(2, -int(-inputs * one.share // whole)) for one in chosen}
